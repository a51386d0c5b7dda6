"""Parameters that can't work are refused before anything is made."""

from botocore.exceptions import ClientError

from bank import Skipped, expect

WRONG = {
    "a time-out that is not in the list": {"FunctionTimeout": "20"},
    "a batch of nothing": {"BatchSize": "0"},
    "a batch above Lambda's limit": {"BatchSize": "10001"},
    "a large batch without a window": {"BatchSize": "50", "BatchingWindow": "0"},
    "a window above Lambda's limit": {"BatchSize": "50", "BatchingWindow": "301"},
    "one invocation at once": {"MaximumConcurrency": "1"},
    "a processor that Lambda has not": {"Architecture": "riscv64"},
}
RIGHT = {"BatchSize": "50", "BatchingWindow": "5"}


def run(bank):
    template = bank.stack.template()
    accepted = [what for what, wrong in WRONG.items() if not refusal(bank, template, wrong)]
    if len(accepted) == len(WRONG):
        raise Skipped("this endpoint checks no parameters")
    expect(not accepted, f"accepted: {accepted}")
    refused = refusal(bank, template, RIGHT)
    expect(not refused, f"right parameters are refused: {refused}")


def refusal(bank, template, parameters):
    """Why the parameters are refused; nothing if they are not. Nothing is deployed in either case."""
    cloudformation = bank.stack.cloudformation
    name = f"{bank.prefix}-{len(parameters)}"
    try:
        cloudformation.create_change_set(
            StackName=name,
            ChangeSetName="look",
            ChangeSetType="CREATE",
            TemplateBody=template,
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
            Parameters=[
                {"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()
            ],
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationError":
            raise
        return error.response["Error"]["Message"]
    cloudformation.delete_stack(StackName=name)
    return None
