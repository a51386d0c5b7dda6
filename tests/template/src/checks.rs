//! What is wrong with a template: one check a concern.

use lambda_idempotency::{Outcome, Retention};
use serde_json::Value;

use crate::permissions;
use crate::template::{Resource, Template};
use crate::yaml::text_of;

/// The attribute that the library keeps a record's end in, unless it is given another.
pub const TTL_ATTRIBUTE: &str = "expiration";

const FUNCTION: &str = "AWS::Serverless::Function";
const QUEUE: &str = "AWS::SQS::Queue";
const TABLE: &str = "AWS::DynamoDB::Table";

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;
/// What SQS keeps a message for, if nothing is said.
const DEFAULT_MESSAGE_RETENTION: u64 = 4 * SECONDS_PER_DAY;
const DEFAULT_VISIBILITY: u64 = 30;
const LONGEST_VISIBILITY: u64 = 12 * 60 * 60;
/// How many function time-outs a message should stay hidden for, as AWS asks for.
const TIMEOUTS_IN_VISIBILITY: u64 = 6;
const SMALLEST_MAX_RECEIVE_COUNT: u64 = 5;
const LARGEST_BATCH_WITHOUT_WINDOW: u64 = 10;

/// What is wrong with the template, a sentence each. Nothing, if it can be deployed.
pub fn problems(template: &Template) -> Vec<String> {
    let mut found = Vec::new();
    let mut mappings = 0;
    for function in template.resources(FUNCTION) {
        for event in events(function) {
            mappings += 1;
            if let Err(problem) = check_mapping(template, function, event, &mut found) {
                found.push(format!("{}: {problem}", function.id));
            }
        }
    }
    if mappings == 0 {
        found.push("no function has an SQS event, so there is nothing to check".to_owned());
    }
    check_failure_metrics(template, &mut found);
    check_oldest_message_alarms(template, &mut found);
    check_portability(template, &mut found);
    found
}

fn events(function: Resource<'_>) -> impl Iterator<Item = &Value> {
    let events = function.properties["Events"].as_object();
    events
        .into_iter()
        .flat_map(|events| events.values())
        .filter(|event| event["Type"] == "SQS")
        .map(|event| &event["Properties"])
}

/// One function and the queue that it is fed from.
fn check_mapping(
    template: &Template,
    function: Resource<'_>,
    event: &Value,
    found: &mut Vec<String>,
) -> Result<(), String> {
    let queue = template
        .pointed_at(QUEUE, &event["Queue"])
        .ok_or("its queue is not one of this template, so it can't be checked")?;
    let is_fifo = queue.properties["FifoQueue"] == true;

    let types = &event["FunctionResponseTypes"];
    if !types
        .as_array()
        .is_some_and(|t| t.contains(&"ReportBatchItemFailures".into()))
    {
        found.push(format!(
            "{}: FunctionResponseTypes lacks ReportBatchItemFailures: Lambda would delete every \
             message that failed",
            function.id
        ));
    }
    check_visibility(template, function, queue, event, found)?;
    check_batches(template, function, queue, event, is_fifo, found)?;
    check_retention(template, function, queue, is_fifo, found)?;
    check_records(template, function, found)?;
    permissions::check(template, function, queue, found);
    Ok(())
}

/// The visibility timeout for every function time-out that the template allows.
fn check_visibility(
    template: &Template,
    function: Resource<'_>,
    queue: Resource<'_>,
    event: &Value,
    found: &mut Vec<String>,
) -> Result<(), String> {
    let timeout = template
        .function_property(function, "Timeout")
        .ok_or("it has no Timeout, and 3 s is no time for a batch")?;
    let window = template.largest(default(&event["MaximumBatchingWindowInSeconds"], &0.into()))?;
    let visibility = &queue.properties["VisibilityTimeout"];
    let visibilities = template.numbers(default(visibility, &DEFAULT_VISIBILITY.into()))?;
    for (of, timeout) in template.numbers(timeout)? {
        // Of the same value of the same parameter, or one for all.
        let (_, hidden) = visibilities
            .iter()
            .find(|(with, _)| *with == of || with.is_none())
            .ok_or_else(|| format!("{} has no visibility timeout for {timeout} s", queue.id))?;
        let needed = TIMEOUTS_IN_VISIBILITY * timeout + window;
        if *hidden < needed {
            found.push(format!(
                "{}: VisibilityTimeout is {hidden} s where {needed} s are needed: \
                 {TIMEOUTS_IN_VISIBILITY} x the time-out of {timeout} s of {} and the window of \
                 {window} s",
                queue.id, function.id
            ));
        }
        if *hidden > LONGEST_VISIBILITY {
            found.push(format!(
                "{}: VisibilityTimeout is {hidden} s, and SQS takes {LONGEST_VISIBILITY} s",
                queue.id
            ));
        }
    }
    Ok(())
}

fn check_batches(
    template: &Template,
    function: Resource<'_>,
    queue: Resource<'_>,
    event: &Value,
    is_fifo: bool,
    found: &mut Vec<String>,
) -> Result<(), String> {
    let size = default(&event["BatchSize"], &10.into()).clone();
    let largest = template.largest(&size)?;
    if template.smallest(&size)? < 1 {
        found.push(format!(
            "{}: a BatchSize of 0 can be asked for",
            function.id
        ));
    }
    let window = &event["MaximumBatchingWindowInSeconds"];
    let receives = &queue.properties["RedrivePolicy"]["maxReceiveCount"];
    let receives = template.smallest(receives).map_err(|_| {
        format!(
            "{} has no maxReceiveCount: poison would stay for ever",
            queue.id
        )
    })?;
    if receives < SMALLEST_MAX_RECEIVE_COUNT {
        found.push(format!(
            "{}: maxReceiveCount is {receives}, and AWS asks for {SMALLEST_MAX_RECEIVE_COUNT}: \
             throttles and crashes use up receives",
            queue.id
        ));
    }
    if is_fifo {
        if !window.is_null() {
            found.push(format!(
                "{}: a FIFO queue takes no batching window",
                function.id
            ));
        }
        if largest > LARGEST_BATCH_WITHOUT_WINDOW {
            found.push(format!("{}: a FIFO queue takes batches of 10", function.id));
        }
        // The followers of a poison message are handed back with it.
        if receives < SMALLEST_MAX_RECEIVE_COUNT * largest {
            found.push(format!(
                "{}: in batches of {largest} healthy messages follow a poison message to the \
                 dead-letter queue: take batches of 1, or a maxReceiveCount of {}",
                queue.id,
                SMALLEST_MAX_RECEIVE_COUNT * largest
            ));
        }
    } else if largest > LARGEST_BATCH_WITHOUT_WINDOW {
        let has_rule = template.rules().is_some_and(|rules| !rules.is_empty());
        if template.smallest(default(window, &0.into()))? == 0 && !has_rule {
            found.push(format!(
                "{}: batches of more than 10 need a window of 1 s, and no rule says so",
                function.id
            ));
        }
    }
    Ok(())
}

/// A record must not end before its message can come back for the last time.
fn check_retention(
    template: &Template,
    function: Resource<'_>,
    queue: Resource<'_>,
    is_fifo: bool,
    found: &mut Vec<String>,
) -> Result<(), String> {
    let dead_letters = template
        .pointed_at(
            QUEUE,
            &queue.properties["RedrivePolicy"]["deadLetterTargetArn"],
        )
        .ok_or_else(|| format!("{} has no dead-letter queue in this template", queue.id))?;
    let kept = |queue: Resource<'_>| {
        let retention = &queue.properties["MessageRetentionPeriod"];
        template.largest(default(retention, &DEFAULT_MESSAGE_RETENTION.into()))
    };
    let (in_queue, in_dead_letters) = (kept(queue)?, kept(dead_letters)?);
    if in_dead_letters < in_queue {
        found.push(format!(
            "{}: messages of {} may be older than its retention when they arrive, and are gone",
            dead_letters.id, queue.id
        ));
    }
    if (dead_letters.properties["FifoQueue"] == true) != is_fifo {
        found.push(format!(
            "{} and {} are not both FIFO",
            queue.id, dead_letters.id
        ));
    }
    // A move to a FIFO dead-letter queue starts the time again, and every redrive does.
    let needed = if is_fifo {
        in_queue + in_dead_letters + in_queue
    } else {
        in_queue + in_dead_letters
    };
    let days = template.variable(function, "RETENTION_DAYS");
    let remembered = match days {
        None => Retention::default().as_secs(),
        Some(days) => template.smallest(days)? * SECONDS_PER_DAY,
    };
    if remembered < needed {
        found.push(format!(
            "{}: records are kept for {} days, and its messages can come back for {}: raise \
             RETENTION_DAYS",
            function.id,
            remembered / SECONDS_PER_DAY,
            needed.div_ceil(SECONDS_PER_DAY)
        ));
    }
    Ok(())
}

/// The table that the function keeps its records in.
fn check_records(
    template: &Template,
    function: Resource<'_>,
    found: &mut Vec<String>,
) -> Result<(), String> {
    let table = template
        .variable(function, "IDEMPOTENCY_TABLE")
        .and_then(|name| template.pointed_at(TABLE, name))
        .ok_or("IDEMPOTENCY_TABLE is not a table of this template, so it can't be checked")?;
    let ttl = &table.properties["TimeToLiveSpecification"];
    if ttl["AttributeName"] != TTL_ATTRIBUTE || ttl["Enabled"] != true {
        found.push(format!(
            "{}: its time to live is not on {TTL_ATTRIBUTE}, where the library writes the end of a \
             record: records would stay for ever",
            table.id
        ));
    }
    let key = &table.properties["KeySchema"];
    if key[0]["AttributeName"] != "id" || key[0]["KeyType"] != "HASH" || !key[1].is_null() {
        found.push(format!(
            "{}: its key has to be the attribute id alone",
            table.id
        ));
    }
    Ok(())
}

/// Failures that are returned as a list are in no metric of Lambda's.
fn check_failure_metrics(template: &Template, found: &mut Vec<String>) {
    let wanted = format!("{{ $.fields.outcome = \"{}\" }}", Outcome::Failed);
    for function in template.resources(FUNCTION) {
        let log = &function.properties["LoggingConfig"];
        // The runtime's lines have no time, and such lines are INFO to Lambda, whatever they say.
        if matches!(
            log["ApplicationLogLevel"].as_str(),
            Some("WARN" | "ERROR" | "FATAL")
        ) {
            found.push(format!(
                "{}: ApplicationLogLevel is above INFO: Lambda would drop every line of the library",
                function.id
            ));
        }
        let is_counted = template.resources("AWS::Logs::MetricFilter").any(|filter| {
            filter.properties["FilterPattern"] == wanted.as_str()
                && filter.properties["LogGroupName"] == log["LogGroup"]
        });
        if !is_counted || log["LogFormat"] != "JSON" {
            found.push(format!(
                "{}: no metric filter counts its failed outcomes, which never raise Errors",
                function.id
            ));
        }
    }
}

/// The alarm on a queue's oldest message goes by the visibility timeout.
fn check_oldest_message_alarms(template: &Template, found: &mut Vec<String>) {
    let alarms = template
        .resources("AWS::CloudWatch::Alarm")
        .filter(|alarm| alarm.properties["MetricName"] == "ApproximateAgeOfOldestMessage");
    for alarm in alarms {
        let queue = template.pointed_at(QUEUE, &alarm.properties["Dimensions"][0]["Value"]);
        let Some(queue) = queue else {
            found.push(format!("{}: its queue is not of this template", alarm.id));
            continue;
        };
        let visibility = template.numbers(&queue.properties["VisibilityTimeout"]);
        let threshold = template.numbers(&alarm.properties["Threshold"]);
        let (Ok(visibility), Ok(threshold)) = (visibility, threshold) else {
            found.push(format!("{}: its threshold can't be read", alarm.id));
            continue;
        };
        for ((_, hidden), (_, age)) in visibility.into_iter().zip(threshold) {
            if age < 2 * hidden {
                found.push(format!(
                    "{}: a message that is done by its second receive is up to {} s old, and the \
                     alarm goes at {age} s",
                    alarm.id,
                    2 * hidden
                ));
            }
        }
    }
}

/// A template has to work in every region, account and partition.
fn check_portability(template: &Template, found: &mut Vec<String>) {
    for (number, line) in template.text().lines().enumerate() {
        let code = line.split(" #").next().unwrap_or_default();
        let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != ':');
        for word in words {
            let is_account = word.len() == 12 && word.bytes().all(|b| b.is_ascii_digit());
            if is_account || is_region(word) || word.starts_with("arn:aws") {
                found.push(format!(
                    "line {}: {word} names a region, an account or a partition",
                    number + 1
                ));
            }
        }
    }
}

/// Like `eu-central-1`, `us-gov-west-1`.
fn is_region(word: &str) -> bool {
    const AREAS: [&str; 9] = ["af", "ap", "ca", "cn", "eu", "il", "me", "sa", "us"];
    let parts: Vec<&str> = word.split('-').collect();
    parts.len() >= 3
        && AREAS.contains(&parts[0])
        && parts
            .last()
            .is_some_and(|p| p.len() == 1 && p.bytes().all(|b| b.is_ascii_digit()))
}

fn default<'a>(value: &'a Value, otherwise: &'a Value) -> &'a Value {
    if value.is_null() || text_of(value).is_empty() {
        otherwise
    } else {
        value
    }
}
