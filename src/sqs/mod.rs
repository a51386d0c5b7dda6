//! SQS batch events: read record by record, run each message once, report what is not done.

mod batch;
mod event;
mod invocation;
mod message;
mod service;

pub use self::event::SqsBatch;
pub use self::service::SqsService;
