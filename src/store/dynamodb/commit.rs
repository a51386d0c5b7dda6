//! Commits: the record alone, one transaction, a group of them.

use std::error::Error as StdError;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};

use super::DynamoDbStore;
use super::one_try::override_of_one_try;
use crate::store::answer::{CommitAnswer, Failure, GroupAnswer, Seen, StoreError};
use crate::store::classify;
use crate::store::layout::CompletingWrite;
use crate::store::request::{CommitRequest, Completion, GroupRequest};

impl DynamoDbStore {
    pub(super) async fn complete_alone(&self, completion: &Completion) -> CommitAnswer {
        let action = match self.completing_action(completion) {
            Ok(action) => action,
            Err(error) => return CommitAnswer::Failed(error),
        };
        if let Some(put) = action.put {
            let answer = self
                .client
                .put_item()
                .table_name(put.table_name)
                .set_item(Some(put.item))
                .set_condition_expression(put.condition_expression)
                .set_expression_attribute_names(put.expression_attribute_names)
                .set_expression_attribute_values(put.expression_attribute_values)
                .set_return_values_on_condition_check_failure(
                    put.return_values_on_condition_check_failure,
                )
                .customize()
                .config_override(override_of_one_try())
                .send()
                .await;
            let refusal = |error: &PutItemError| match error {
                PutItemError::ConditionalCheckFailedException(refusal) => {
                    Some(self.seen(refusal.item()))
                }
                _ => None,
            };
            return self.completed_alone(answer.map(drop), refusal);
        }
        let Some(update) = action.update else {
            let error = "the write of the record has no action";
            return CommitAnswer::Failed(StoreError::new(Failure::Rejected, error));
        };
        let answer = self
            .client
            .update_item()
            .table_name(update.table_name)
            .set_key(Some(update.key))
            .update_expression(update.update_expression)
            .set_condition_expression(update.condition_expression)
            .set_expression_attribute_names(update.expression_attribute_names)
            .set_expression_attribute_values(update.expression_attribute_values)
            .set_return_values_on_condition_check_failure(
                update.return_values_on_condition_check_failure,
            )
            .send()
            .await;
        let refusal = |error: &UpdateItemError| match error {
            UpdateItemError::ConditionalCheckFailedException(refusal) => {
                Some(self.seen(refusal.item()))
            }
            _ => None,
        };
        self.completed_alone(answer.map(drop), refusal)
    }

    fn completed_alone<E>(
        &self,
        answer: Result<(), SdkError<E, HttpResponse>>,
        refusal: impl FnOnce(&E) -> Option<Seen>,
    ) -> CommitAnswer
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let Err(error) = answer else {
            return CommitAnswer::Committed;
        };
        if let Some(seen) = error.as_service_error().and_then(refusal) {
            return CommitAnswer::RecordRefused(seen);
        }
        let impossible = classify::is_impossible(error.code());
        let error = classify::store_error(&self.of_table("completing the record"), error);
        if impossible {
            CommitAnswer::Impossible { write: None, error }
        } else {
            CommitAnswer::Failed(error)
        }
    }

    /// The write that completes a record, for a transaction or alone.
    fn completing_action(&self, completion: &Completion) -> Result<TransactWriteItem, StoreError> {
        let action = TransactWriteItem::builder();
        let all_old = ReturnValuesOnConditionCheckFailure::AllOld;
        let built = match self.layout.completing_write(completion) {
            CompletingWrite::Update {
                key,
                update,
                condition,
            } => Update::builder()
                .table_name(&self.layout.table)
                .set_key(Some(key))
                .update_expression(update.text)
                .condition_expression(condition)
                .set_expression_attribute_names(Some(update.names))
                .set_expression_attribute_values(Some(update.values))
                .return_values_on_condition_check_failure(all_old)
                .build()
                .map(|update| action.update(update)),
            CompletingWrite::Put { item, condition } => Put::builder()
                .table_name(&self.layout.table)
                .set_item(Some(item))
                .condition_expression(condition.text)
                .set_expression_attribute_names(Some(condition.names))
                .set_expression_attribute_values(Some(condition.values))
                .return_values_on_condition_check_failure(all_old)
                .build()
                .map(|put| action.put(put)),
        };
        built.map(|action| action.build()).map_err(|error| {
            StoreError::new(
                Failure::Rejected,
                "the write of the record could not be built",
            )
            .with_source(error)
        })
    }

    pub(super) async fn transact(&self, request: &CommitRequest) -> CommitAnswer {
        let mut actions = Vec::with_capacity(request.writes.len() + 1);
        if let Err(error) = self.add_actions(&mut actions, request) {
            return CommitAnswer::Failed(error);
        }
        let token = &request.client_token;
        let Err(error) = self.send_transaction(actions, token).await else {
            return CommitAnswer::Committed;
        };
        if let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
            error.as_service_error()
        {
            let reasons = cancelled.cancellation_reasons();
            if let Some(answer) = classify::cancelled(reasons, request, &self.layout) {
                return answer;
            }
        }
        let code = error.code().map(str::to_owned);
        let error = classify::store_error(&self.of_commits([request]), error);
        match code.as_deref() {
            Some("IdempotentParameterMismatchException") => CommitAnswer::TokenReused(error),
            code if classify::is_impossible(code) => {
                CommitAnswer::Impossible { write: None, error }
            }
            _ => CommitAnswer::Failed(error),
        }
    }

    pub(super) async fn transact_group(&self, request: &GroupRequest) -> GroupAnswer {
        let mut actions = Vec::new();
        for commit in &request.commits {
            if let Err(error) = self.add_actions(&mut actions, commit) {
                return GroupAnswer::Undecided(error);
            }
        }
        let token = &request.client_token;
        let Err(error) = self.send_transaction(actions, token).await else {
            return GroupAnswer::Committed;
        };
        if let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
            error.as_service_error()
        {
            let reasons = cancelled.cancellation_reasons();
            let commits = &request.commits;
            if let Some(answers) = classify::cancelled_group(reasons, commits, &self.layout) {
                return GroupAnswer::Cancelled(answers);
            }
            // Nothing was written, and whose fault it was each commit finds out alone.
            let error = "the transaction was cancelled, for reasons that do not say whose";
            return GroupAnswer::Undecided(StoreError::new(Failure::Unclassified, error));
        }
        let commits = request.commits.iter().map(|commit| &**commit);
        let error = classify::store_error(&self.of_commits(commits), error);
        match error.failure() {
            Failure::Rejected => GroupAnswer::Undecided(error),
            _ => GroupAnswer::Failed(error),
        }
    }

    fn add_actions(
        &self,
        actions: &mut Vec<TransactWriteItem>,
        request: &CommitRequest,
    ) -> Result<(), StoreError> {
        if let Some(completion) = &request.completion {
            actions.push(self.completing_action(completion)?);
        }
        actions.extend(request.writes.iter().map(|write| write.action().clone()));
        Ok(())
    }

    async fn send_transaction(
        &self,
        actions: Vec<TransactWriteItem>,
        client_token: &str,
    ) -> Result<(), SdkError<TransactWriteItemsError, HttpResponse>> {
        self.client
            .transact_write_items()
            .set_transact_items(Some(actions))
            .client_request_token(client_token)
            .send()
            .await
            .map(drop)
    }
}
