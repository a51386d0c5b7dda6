//! What a lab's messages came to, in a form that a test can compare at one glance.

use lambda_idempotency::{Handler, SqsBatch, SqsService};

use super::Lab;

impl Lab {
    /// What became of each message since the last call: `"m-1 completed"`, `"m-2 failed decode"`,
    /// sorted, because messages of a batch end in any order. A missing id is `-`.
    pub fn take_outcomes(&self) -> Vec<String> {
        let mut outcomes: Vec<String> = self
            .take_reports()
            .iter()
            .map(|report| {
                let id = report.message_id.as_deref().unwrap_or("-");
                match report.reason {
                    Some(reason) => format!("{id} {} {reason}", report.outcome),
                    None => format!("{id} {}", report.outcome),
                }
            })
            .collect();
        outcomes.sort();
        outcomes
    }

    /// The response's bytes.
    pub async fn respond<H: Handler<B>, B: Send + 'static>(
        &self,
        service: &SqsService<H, B>,
        batch: SqsBatch,
    ) -> String {
        let response = self.process(service, batch).await.unwrap();
        serde_json::to_string(&response).unwrap()
    }

    /// How many records there are, of any key.
    pub async fn records(&self) -> usize {
        self.count(&self.tables.records).await
    }
}
