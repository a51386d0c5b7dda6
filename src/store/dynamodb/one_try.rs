//! Requests that the SDK must not send again by itself: the protocol has to see each try.

use aws_sdk_dynamodb::config::interceptors::BeforeSerializationInterceptorContextRef;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{Builder, ConfigBag, Intercept};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsInput;
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;

/// Takes the SDK's own tries from every transaction. An override of the configuration would do it too,
/// at about 9,000 instructions a request.
#[derive(Debug)]
pub(super) struct TransactionsOnce;

// Without this hint the SDK calls all 20 hooks of it for each request.
#[dyn_dispatch_hint]
impl Intercept for TransactionsOnce {
    fn name(&self) -> &'static str {
        "TransactionsOnce"
    }

    fn read_before_execution(
        &self,
        context: &BeforeSerializationInterceptorContextRef<'_>,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let input = context.input();
        if input.downcast_ref::<TransactWriteItemsInput>().is_some() {
            config.interceptor_state().store_put(one_try());
        }
        Ok(())
    }
}

/// For one request that is no transaction.
pub(super) fn override_of_one_try() -> Builder {
    aws_sdk_dynamodb::Config::builder().retry_config(one_try())
}

fn one_try() -> RetryConfig {
    RetryConfig::disabled()
}
