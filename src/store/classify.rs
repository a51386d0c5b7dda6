//! What an error of the AWS SDK means for the protocol. Nothing else decides what may be tried again.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::RequestId as _;
use aws_sdk_dynamodb::types::CancellationReason;

use super::answer::{CommitAnswer, Failure, Seen, StoreError};
use super::layout::Layout;
use super::request::CommitRequest;
use crate::error::Chain;

/// A failed request, with what it means. A coded answer speaks for the SDK's last try only.
pub(super) fn store_error<E>(request: &str, error: SdkError<E, HttpResponse>) -> StoreError
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    let failure = failure(&error);
    let Some(code) = error.code() else {
        let said = match failure {
            Failure::Rejected => "it was not sent",
            _ => "there is no answer that says what came of it",
        };
        let cause = without_request(&Chain(&error).to_string());
        return StoreError::new(failure, format!("{request} failed: {said}")).with_source(cause);
    };
    // Everything that a coded answer says; the SDK's own text would only repeat it.
    let message = error.message().unwrap_or("no message");
    let advice = advice(code).unwrap_or_default();
    let id = match error.request_id() {
        Some(id) => format!(" (request {id})"),
        None => String::new(),
    };
    StoreError::new(
        failure,
        format!("{request} failed: {code}: {message}{advice}{id}"),
    )
}

/// The SDK's words without the request that some of them repeat whole: it holds the user's data.
fn without_request(words: &str) -> String {
    match words.split_once("Request {") {
        Some((before, request)) => {
            let after = request.rsplit_once("}`").map_or("", |(_, after)| after);
            format!("{before}…`{after}")
        }
        None => words.to_owned(),
    }
}

/// What to do about an error that only a person can mend.
fn advice(code: &str) -> Option<&'static str> {
    match code {
        "ResourceNotFoundException" => {
            Some("; check the table's name, Region and account, and that it is active")
        }
        "AccessDeniedException" => Some(
            "; allow the function's role dynamodb:PutItem, UpdateItem, DeleteItem, GetItem and \
             ConditionCheckItem on its tables",
        ),
        _ => None,
    }
}

fn failure<E>(error: &SdkError<E, HttpResponse>) -> Failure
where
    E: ProvideErrorMetadata + StdError + 'static,
{
    match error {
        SdkError::ConstructionFailure(_) => Failure::Rejected,
        SdkError::DispatchFailure(dispatch) => {
            if dispatch.is_user() || was_never_sent(error) {
                Failure::Rejected
            } else {
                Failure::Unknown
            }
        }
        SdkError::ServiceError(service) => {
            coded(service.err().code(), service.raw().status().as_u16())
        }
        // Time-outs, answers that can't be parsed, and whatever the SDK may add.
        _ => Failure::Unknown,
    }
}

fn coded(code: Option<&str>, status: u16) -> Failure {
    match (code, status) {
        (_, 500..) => Failure::Unknown,
        (Some("TransactionConflictException" | "ReplicatedWriteConflictException"), _) => {
            Failure::Conflict
        }
        (
            Some(
                "ThrottlingException"
                | "Throttling"
                | "ProvisionedThroughputExceededException"
                | "RequestLimitExceeded",
            ),
            _,
        )
        | (None, 429) => Failure::Throttled,
        (
            Some("TransactionInProgressException" | "RequestTimeout" | "RequestTimeoutException"),
            _,
        )
        | (_, 408) => Failure::Unknown,
        // A cancelled transaction wrote nothing, but its reasons are missing or strange.
        (None | Some("TransactionCanceledException"), _) => Failure::Unclassified,
        (Some(_), _) => Failure::Rejected,
    }
}

/// Whether the request certainly did not leave: there were no credentials to sign it with, or
/// nobody listens.
fn was_never_sent(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<CredentialsError>() {
            return true;
        }
        if let Some(error) = error.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            return true;
        }
        next = error.source();
    }
    false
}

/// Whether DynamoDB says that this very request can never succeed.
pub(super) fn is_impossible(code: Option<&str>) -> bool {
    matches!(
        code,
        Some(
            "ValidationException"
                | "ItemCollectionSizeLimitExceededException"
                | "SerializationException"
                | "RequestEntityTooLarge"
        )
    )
}

/// What the reasons of a cancelled transaction say, or `None` if they do not say it.
/// The first reason is the record's, where the request completes one.
pub(super) fn cancelled(
    reasons: &[CancellationReason],
    request: &CommitRequest,
    layout: &Layout,
) -> Option<CommitAnswer> {
    let has_record = request.completion.is_some();
    let writes = &request.writes;
    let codes: Vec<&str> = reasons
        .iter()
        .map(|reason| reason.code().unwrap_or("None"))
        .collect();
    let writes_from = usize::from(has_record);
    let failed_condition = |at: usize| codes.get(at) == Some(&"ConditionalCheckFailed");

    if let (true, Some(reason)) = (has_record && failed_condition(0), reasons.first()) {
        let seen = match reason.item() {
            Some(item) if !item.is_empty() => layout.names.read(item),
            _ => Seen::Nothing,
        };
        return Some(CommitAnswer::RecordRefused(seen));
    }
    let hopeless = codes
        .iter()
        .position(|code| matches!(*code, "ValidationError" | "ItemCollectionSizeLimitExceeded"));
    if let Some(at) = hopeless {
        let code = codes.get(at).copied().unwrap_or_default();
        let message = reasons.get(at).and_then(CancellationReason::message);
        let message = message.unwrap_or("no message");
        let write = at.checked_sub(writes_from);
        let said = match write {
            Some(_) => format!("{code}: {message}"),
            None => format!(
                "the record in the table {:?}: {code}: {message}",
                layout.table
            ),
        };
        return Some(CommitAnswer::Impossible {
            write,
            error: StoreError::new(Failure::Rejected, said),
        });
    }
    let failed: Vec<usize> = (writes_from..codes.len())
        .filter(|at| failed_condition(*at))
        .map(|at| at - writes_from)
        .collect();
    if !failed.is_empty() {
        let is_incomparable = |at: &usize| {
            let stored = reasons
                .get(at + writes_from)
                .and_then(CancellationReason::item);
            let write = writes.get(*at);
            stored.is_some_and(|item| write.is_some_and(|write| !write.is_comparable_with(item)))
        };
        let incomparable = failed.iter().copied().filter(is_incomparable).collect();
        return Some(CommitAnswer::ConditionFailed {
            failed,
            incomparable,
        });
    }
    let busy = |code: &str| match code {
        "None" => Some(None),
        "TransactionConflict" => Some(Some(Failure::Conflict)),
        "ThrottlingError" | "ProvisionedThroughputExceeded" => Some(Some(Failure::Throttled)),
        _ => None,
    };
    let busy: Vec<Failure> = codes
        .iter()
        .map(|code| busy(code))
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    let failure = if busy.contains(&Failure::Conflict) {
        Failure::Conflict
    } else {
        *busy.first()?
    };
    Some(CommitAnswer::Failed(StoreError::new(
        failure,
        "the transaction was cancelled: its items are in another one, or the store throttles",
    )))
}

/// What the reasons of a cancelled group say of each commit, or `None` if they do not say it.
pub(super) fn cancelled_group(
    reasons: &[CancellationReason],
    commits: &[Arc<CommitRequest>],
    layout: &Layout,
) -> Option<Vec<Option<CommitAnswer>>> {
    let mut rest = reasons;
    let mut answers = Vec::with_capacity(commits.len());
    for commit in commits {
        let actions = usize::from(commit.completion.is_some()) + commit.writes.len();
        let (own, others) = rest.split_at_checked(actions)?;
        rest = others;
        let is_to_blame = own
            .iter()
            .any(|reason| reason.code().is_some_and(|code| code != "None"));
        answers.push(if is_to_blame {
            Some(cancelled(own, commit, layout)?)
        } else {
            None
        });
    }
    let somebody_is = answers.iter().any(Option::is_some);
    (rest.is_empty() && somebody_is).then_some(answers)
}
