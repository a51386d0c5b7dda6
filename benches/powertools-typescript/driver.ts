// Powertools for AWS Lambda (TypeScript), used as its documentation shows for SQS batches: a batch
// processor, an idempotent function a record, and one business write with the AWS SDK v3.
//
// Bundled and minified by esbuild, as it would be deployed. The driver's side of a measurement is
// that of the Rust drivers (harness/src/session.rs).

import { closeSync, openSync, readSync } from 'node:fs';
import {
  BatchProcessor,
  EventType,
  processPartialResponse,
} from '@aws-lambda-powertools/batch';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import type { Context, SQSEvent, SQSRecord } from 'aws-lambda';

const processor = new BatchProcessor(EventType.SQS);
const persistenceStore = new DynamoDBPersistenceLayer({ tableName: 'bench-records' });
const config = new IdempotencyConfig({
  eventKeyJmesPath: 'messageId',
  expiresAfterSeconds: 28 * 24 * 60 * 60,
});
const client = DynamoDBDocumentClient.from(new DynamoDBClient({}));

const processRecord = makeIdempotent(
  async (record: SQSRecord) => {
    const payment = JSON.parse(record.body);
    await client.send(
      new UpdateCommand({
        TableName: 'bench-accounts',
        Key: { id: payment.account },
        UpdateExpression: 'ADD balance :amount',
        ExpressionAttributeValues: { ':amount': payment.amount },
      }),
    );
    return { payment_id: payment.payment_id };
  },
  { persistenceStore, config },
);

const handler = async (event: SQSEvent, context: Context) => {
  config.registerLambdaContext(context);
  return processPartialResponse(event, processRecord, processor, { context });
};

/** One invocation, from the event's JSON to the response's; how many messages failed. */
const invoke = async (event: string): Promise<number> => {
  const context = { getRemainingTimeInMillis: () => 300_000 } as Context;
  const response = await handler(JSON.parse(event), context);
  JSON.stringify(response);
  return response.batchItemFailures.length;
};

/** The lines of a file, none before it is needed. */
function* lines(path: string): Generator<string> {
  const file = openSync(path, 'r');
  const chunk = Buffer.alloc(64 * 1024);
  let rest: Buffer[] = [];
  for (let size = readSync(file, chunk); size > 0; size = readSync(file, chunk)) {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0 && end < size; end = chunk.indexOf(10, start)) {
      rest.push(Buffer.from(chunk.subarray(start, end)));
      yield Buffer.concat(rest).toString();
      rest = [];
      start = end + 1;
    }
    rest.push(Buffer.from(chunk.subarray(start, size)));
  }
  closeSync(file);
}

/** A line of standard input; `undefined` at its end. */
const input = async function* () {
  for await (const chunk of process.stdin) yield String(chunk);
};

const argument = (name: string): string => process.argv[process.argv.indexOf(name) + 1];
const events = lines(argument('--events'));
for (let warm = Number(argument('--warm')); warm > 0; warm -= 1) {
  await invoke(events.next().value as string);
}
process.stdout.write('ready\n');
const commands = input();
await commands.next();
const start = process.hrtime.bigint();
let failed = 0;
for (const event of events) failed += await invoke(event);
const seconds = Number(process.hrtime.bigint() - start) / 1e9;
process.stdout.write(`${JSON.stringify({ seconds, failed })}\n`);
await commands.next();
