//! The repository's template has no problem, and every check finds the problem that it is for.

use std::fs;
use std::path::PathBuf;

use check_template::{LIBRARY_ACTIONS, TTL_ATTRIBUTE, Template, problems};
use lambda_idempotency::store::AttributeNames;

fn file(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn problems_of(text: &str) -> Vec<String> {
    problems(&Template::parse(text).expect("a template"))
}

/// Changes the template, and expects a problem that contains each of the texts.
#[track_caller]
fn expect_problem(change: impl Fn(&str) -> String, parts: &[&str]) {
    let template = file("template.yaml");
    let changed = change(&template);
    assert_ne!(changed, template, "the change changes nothing");
    let found = problems_of(&changed);
    assert!(
        found
            .iter()
            .any(|problem| parts.iter().all(|part| problem.contains(part))),
        "no problem has {parts:?}: {found:#?}"
    );
}

fn replaced(from: &str, to: &str) -> impl Fn(&str) -> String {
    move |template| template.replace(from, to)
}

#[test]
fn the_template_has_no_problem() {
    assert_eq!(problems_of(&file("template.yaml")), [""; 0]);
}

#[test]
fn a_visibility_timeout_below_six_time_outs_and_the_window_is_found() {
    for (from, to, needed) in [
        ("Visibility: 312,", "Visibility: 311,", "312"),
        ("Visibility: 480,", "Visibility: 180,", "480"),
        ("Visibility: 5700,", "Visibility: 5400,", "5700"),
    ] {
        expect_problem(replaced(from, to), &["Queue: VisibilityTimeout", needed]);
    }
    expect_problem(
        replaced("FifoVisibility: 1800", "FifoVisibility: 1799"),
        &["FifoQueue: VisibilityTimeout is 1799 s where 1800 s"],
    );
    expect_problem(
        replaced("AllowedValues: [2, 10,", "AllowedValues: [2, 20, 10,"),
        &["no number Visibility for FunctionTimeout 20"],
    );
    expect_problem(
        |template| template.replacen("MaxValue: 300", "MaxValue: 301", 1),
        &["Queue: VisibilityTimeout is 312 s where 313 s"],
    );
    expect_problem(
        replaced(
            "      VisibilityTimeout: !FindInMap [ByFunctionTimeout, !Ref FunctionTimeout, Visibility]\n",
            "",
        ),
        &["Queue: VisibilityTimeout is 30 s"],
    );
}

#[test]
fn a_missing_list_of_failures_is_found() {
    for at in 0..2 {
        let without = |template: &str| {
            let line = "            FunctionResponseTypes: [ReportBatchItemFailures]\n";
            let mut pieces: Vec<&str> = template.split(line).collect();
            let tail = pieces.split_off(at + 1);
            format!("{}{}", pieces.join(line), tail.join(line))
        };
        expect_problem(without, &["lacks ReportBatchItemFailures"]);
    }
}

#[test]
fn a_retention_that_ends_before_messages_can_come_back_is_found() {
    expect_problem(
        replaced("RETENTION_DAYS: \"28\"", "RETENTION_DAYS: \"27\""),
        &["PaymentsFunction: records are kept for 27 days", "for 28"],
    );
    expect_problem(
        replaced("RETENTION_DAYS: \"42\"", "RETENTION_DAYS: \"28\""),
        &[
            "FifoPaymentsFunction: records are kept for 28 days",
            "for 42",
        ],
    );
    // The library's default is right for the standard queue, and not for the FIFO queue.
    let without = |template: &str| {
        template
            .replace("          RETENTION_DAYS: \"42\"\n", "")
            .replace("          RETENTION_DAYS: \"28\"\n", "")
    };
    expect_problem(
        without,
        &["FifoPaymentsFunction: records are kept for 28 days"],
    );
    assert_eq!(problems_of(&without(&file("template.yaml"))).len(), 1);
    expect_problem(
        |template| {
            template
                .replacen(
                    "MessageRetentionPeriod: 1209600",
                    "MessageRetentionPeriod: 86400",
                    2,
                )
                .replacen(
                    "MessageRetentionPeriod: 86400",
                    "MessageRetentionPeriod: 1209600",
                    1,
                )
        },
        &["DeadLetterQueue: messages of Queue may be older"],
    );
}

#[test]
fn another_attribute_for_the_time_to_live_is_found() {
    expect_problem(
        replaced("AttributeName: expiration", "AttributeName: expires_at"),
        &["IdempotencyTable: its time to live is not on expiration"],
    );
    expect_problem(
        replaced("        Enabled: true\n", "        Enabled: false\n"),
        &["IdempotencyTable: its time to live"],
    );
    let names = format!("{:?}", AttributeNames::default());
    assert!(
        names.contains(&format!("expiration: \"{TTL_ATTRIBUTE}\"")),
        "{names}"
    );
}

#[test]
fn a_missing_or_unused_permission_is_found() {
    for action in LIBRARY_ACTIONS {
        expect_problem(
            |template| {
                let line = format!("- {action} #");
                let kept = template
                    .split_inclusive('\n')
                    .filter(|l| !l.trim_start().starts_with(&line));
                kept.collect()
            },
            &["may not do", action, "IdempotencyTable"],
        );
    }
    const CLAIM: &str = "              - dynamodb:PutItem # claim\n";
    let more = |action: &str| format!("{CLAIM}              - {action}\n");
    for action in ["dynamodb:Scan", "dynamodb:ConditionCheckItem"] {
        expect_problem(
            replaced(CLAIM, &more(action)),
            &["may do", action, "never does"],
        );
    }
    expect_problem(
        replaced(CLAIM, &more("dynamodb:*")),
        &["may do dynamodb:*: name the actions"],
    );
    expect_problem(
        replaced("Resource: !GetAtt IdempotencyTable.Arn", "Resource: \"*\""),
        &["dynamodb:PutItem on everything"],
    );
    expect_problem(
        replaced("Action: dynamodb:UpdateItem", "Action: dynamodb:PutItem"),
        &["may not do dynamodb:UpdateItem on AccountsTable"],
    );
    expect_problem(
        replaced("sqs:DeleteMessage, ", ""),
        &["may not do sqs:DeleteMessage on Queue"],
    );
    expect_problem(
        replaced("ManagedPolicyArns: [!Ref PaymentsPolicy]", "Path: /"),
        &["PaymentsFunction may not do dynamodb:PutItem on PaymentsTable"],
    );
}

#[test]
fn the_list_of_actions_is_what_the_library_calls() {
    let source = ["mod", "commit"]
        .map(|name| file(&format!("src/store/dynamodb/{name}.rs")))
        .concat();
    let calls = [
        ("put_item", "dynamodb:PutItem"),
        ("update_item", "dynamodb:UpdateItem"),
        ("delete_item", "dynamodb:DeleteItem"),
        ("get_item", "dynamodb:GetItem"),
        ("query", "dynamodb:Query"),
        ("scan", "dynamodb:Scan"),
        ("batch_get_item", "dynamodb:BatchGetItem"),
        ("batch_write_item", "dynamodb:BatchWriteItem"),
    ];
    let mut called: Vec<&str> = calls
        .iter()
        .filter(|(method, _)| source.contains(&format!(".{method}()")))
        .map(|(_, action)| *action)
        .collect();
    called.sort_unstable();
    assert_eq!(called, LIBRARY_ACTIONS);
}

#[test]
fn batches_that_lambda_refuses_are_found() {
    expect_problem(
        replaced(
            "    MinValue: 1\n    MaxValue: 10000",
            "    MinValue: 0\n    MaxValue: 10000",
        ),
        &["BatchSize of 0"],
    );
    expect_problem(
        replaced(
            "            BatchSize: 1\n",
            "            BatchSize: 1\n            MaximumBatchingWindowInSeconds: 1\n",
        ),
        &["FIFO queue takes no batching window"],
    );
    expect_problem(
        |template| {
            let (start, rest) = template.split_once("\nRules:").expect("rules");
            let (_, end) = rest.split_once("\nMappings:").expect("mappings");
            format!("{start}\nMappings:{end}")
        },
        &["batches of more than 10 need a window"],
    );
}

#[test]
fn too_few_receives_are_found() {
    expect_problem(
        replaced("maxReceiveCount: 5", "maxReceiveCount: 3"),
        &["Queue: maxReceiveCount is 3"],
    );
    expect_problem(
        replaced("            BatchSize: 1\n", "            BatchSize: 10\n"),
        &["FifoQueue: in batches of 10", "maxReceiveCount of 50"],
    );
}

#[test]
fn failures_that_nobody_counts_are_found() {
    expect_problem(
        replaced("outcome = \"failed\"", "outcome = \"error\""),
        &["no metric filter counts its failed outcomes"],
    );
    expect_problem(
        replaced("LogFormat: JSON", "LogFormat: Text"),
        &["no metric filter counts its failed outcomes"],
    );
}

#[test]
fn a_log_level_that_drops_the_outcomes_is_found() {
    expect_problem(
        replaced("ApplicationLogLevel: INFO", "ApplicationLogLevel: ERROR"),
        &["ApplicationLogLevel is above INFO"],
    );
}

#[test]
fn a_panic_unwinds_in_the_function_that_is_deployed() {
    // `cargo lambda build` takes "abort" where the profile says nothing.
    let manifest = file("Cargo.toml");
    let profile = manifest
        .split("[profile.release]")
        .nth(1)
        .expect("a release profile");
    let profile = profile.split("\n[").next().unwrap_or_default();
    assert!(profile.contains("panic = \"unwind\""), "{profile}");
}

#[test]
fn an_alarm_that_goes_before_the_second_receive_is_found() {
    expect_problem(
        replaced("OldestMessageAlarm: 960", "OldestMessageAlarm: 480"),
        &["OldestMessageAlarm: a message", "960 s"],
    );
}

#[test]
fn a_region_an_account_and_a_partition_are_found() {
    for written in [
        "eu-central-1",
        "us-gov-west-1",
        "123456789012",
        "arn:aws:iam::aws:policy/X",
    ] {
        expect_problem(
            replaced("Runtime: provided.al2023", &format!("Runtime: {written}")),
            &["names a region, an account or a partition"],
        );
    }
}
