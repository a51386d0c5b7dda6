"""The cases, in the order in which they run. Each is a module: its docstring is what it shows."""

from . import (
    death_after_commit,
    death_before_commit,
    deploy_under_load,
    failure_metric,
    fifo_order,
    first_delivery,
    missing_permission,
    missing_table,
    missing_variable,
    panic,
    poison_message,
    same_fact_twice,
    slow_handler,
    thousand_messages,
    time_out,
    wrong_parameters,
)

ALL = [
    first_delivery,
    same_fact_twice,
    death_before_commit,
    death_after_commit,
    panic,
    time_out,
    slow_handler,
    poison_message,
    fifo_order,
    thousand_messages,
    deploy_under_load,
    missing_table,
    missing_permission,
    missing_variable,
    wrong_parameters,
    failure_metric,
]
