//! Where the JSON values of a text are, and values worth trying in their place.

use std::ops::Range;

/// The places of all JSON values in these bytes, as far as they look like some.
pub(super) fn places(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let from = at;
        at += 1;
        match byte {
            b'{' | b'[' => open.push(from),
            b'}' | b']' => found.extend(open.pop().map(|from| from..at)),
            b'"' => {
                at = end_of_text(bytes, at);
                found.push(from..at);
            }
            b'-' | b'0'..=b'9' | b'a'..=b'z' => {
                let in_word =
                    |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
                at += bytes[at..].iter().take_while(|byte| in_word(byte)).count();
                found.push(from..at);
            }
            _ => {}
        }
    }
    found
}

fn end_of_text(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Values that have broken readers.
pub(super) const VALUES: &[&str] = &[
    "null",
    "true",
    "0",
    "-0",
    "-1",
    "1.50",
    "1e1",
    "1E-400",
    "1e999",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "99999999999999999999999999999999999999",
    "1e9223372036854775807",
    "0.1e-9223372036854775808",
    r#""""#,
    r#"" ""#,
    r#""\u0000""#,
    r#""\ud83d""#,
    r#""\ud83e\udd80""#,
    r#""\u00e9""#,
    "\"\u{1F980}\"",
    r#""null""#,
    r#""{}""#,
    r#""fail""#,
    r#""arn:aws:sqs:eu-west-1:1:q.fifo""#,
    "[]",
    "{}",
    "[{}]",
    r#"{"":null}"#,
    r#"{"a":1,"a":2}"#,
    r#"{"S":"COMPLETED"}"#,
    r#"{"S":"INPROGRESS"}"#,
    r#"{"S":"$TOKEN"}"#,
    r#"{"S":"$FINGERPRINT"}"#,
    r#"{"N":"1e400"}"#,
    r#"{"N":"-1"}"#,
    r#"{"N":""}"#,
    r#"{"NULL":true}"#,
    r#"{"L":[]}"#,
    r#"{"M":{}}"#,
    r#"{"B":"%%"}"#,
];

/// Words of the events, of the envelopes, of DynamoDB and of the targets' own inputs.
pub(super) const WORDS: &[&str] = &[
    "\"messageId\"",
    "\"body\"",
    "\"attributes\"",
    "\"messageAttributes\"",
    "\"MessageGroupId\"",
    "\"eventSource\"",
    "\"eventSourceARN\"",
    "\"stringValue\"",
    "\"binaryValue\"",
    "\"dataType\"",
    "\"Records\"",
    "\"Type\":\"Notification\"",
    "\"TopicArn\":\"t\"",
    "\"MessageId\":\"n-1\"",
    "\"Message\":\"{}\"",
    "\"detail-type\":\"t\"",
    "\"source\":\"s\"",
    "\"detail\":{}",
    "\"id\":\"e-1\"",
    "\"Item\":",
    "\"CancellationReasons\":",
    "\"Code\":\"ConditionalCheckFailed\"",
    "ConditionalCheckFailedException",
    "TransactionCanceledException",
    "TransactionConflictException",
    "TransactionInProgressException",
    "IdempotentParameterMismatchException",
    "ThrottlingException",
    "ValidationException",
    "200 {}\n",
    "400 ",
    "500 ",
    "reset\n",
    "at_commit\n",
    "group\n",
    "again ",
    "no_writes ",
    "message_id\t",
    "attribute:",
    "body:/",
    "in_any\t",
    "sns\t",
    "~0",
    "~1",
    "%23",
    "#",
    "sha256:",
    "\\ud83d",
    "\u{feff}",
    "\u{2028}",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_place() {
        let text = r#"{"a": [1, "b\"]"], "c": null}"#;
        let mut found: Vec<&str> = places(text.as_bytes())
            .into_iter()
            .map(|place| &text[place])
            .collect();
        found.sort_unstable();
        let mut every = [
            r#""a""#,
            "1",
            r#""b\"]""#,
            r#"[1, "b\"]"]"#,
            r#""c""#,
            "null",
            text,
        ];
        every.sort_unstable();
        assert_eq!(found, every);
        assert!(places(br#"{"a": [1, "b\"#).len() <= 3);
    }
}
