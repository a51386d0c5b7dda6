//! A way through the model in words, for who has to find the mistake.

use std::fmt::{self, Write as _};

use stateright::Path;

use crate::code::Now;
use crate::state::{Invocation, KEYS, Member, Mode, Payload, Phase, Record, Request, State, Who};
use crate::step::{Business, Reply, Step};

/// Each step, and what it changed.
pub(crate) fn told(path: Path<State, Step>) -> String {
    let mut text = String::new();
    let path = path.into_vec();
    for (at, pair) in path.windows(2).enumerate() {
        if let [(before, Some(step)), (after, _)] = pair {
            let _ = writeln!(text, "{:>3}. {}", at + 1, step_told(before, *step));
            for change in changes(before, after) {
                let _ = writeln!(text, "       {change}");
            }
        }
    }
    text
}

fn step_told(before: &State, step: Step) -> String {
    let number = |invocation: u8| format!("invocation {}", invocation + 1);
    match step {
        Step::Deliver {
            batch,
            mode,
            look_first,
        } => {
            let messages: Vec<String> = batch
                .into_iter()
                .zip(["a", "b"])
                .filter_map(|(payload, key)| Some(format!("{key}{}", payload?)))
                .collect();
            let how = match (mode, look_first) {
                (Mode::ClaimFirst, _) => "claims first",
                (Mode::AtCommit, false) => "claims at commit",
                (Mode::AtCommit, true) => "claims at commit, looks first",
            };
            format!(
                "{} gets {}: {how}",
                number(before.begun),
                messages.join(" and ")
            )
        }
        Step::HandlerSucceeds(who) => format!("{who}: the handler succeeds"),
        Step::HandlerFails(who) => format!("{who}: the handler fails"),
        Step::Arrives {
            who,
            request,
            now,
            business,
            reply,
        } => format!("{who}: {request} arrives{now}{business}{reply}"),
        Step::SendsAgain(who) => format!("{who}: no answer, sends the same request again"),
        Step::GivesUp(who) => format!("{who}: no answer, gives up"),
        Step::Reads(who, now) => format!("{who}: reads the record{now}"),
        Step::SendsGroup(invocation) => format!("{}: commits its group", number(invocation)),
        Step::SendsAlone(who) => format!("{who}: commits alone"),
        Step::GroupArrives {
            invocation,
            now,
            business: [a, b],
            reply,
        } => format!(
            "{}: the group's commit arrives{now}; a{a}, b{b}{reply}",
            number(invocation)
        ),
        Step::GroupSendsAgain(invocation) => {
            format!("{}: no answer, sends the group again", number(invocation))
        }
        Step::GroupGivesUp(invocation) => {
            format!("{}: no answer, gives the group up", number(invocation))
        }
        Step::LeaseEnds(who) => format!("{who}: its lease ends"),
        Step::TokenIsForgotten(who, body) => {
            format!("{who}: the store forgets that it applied body {body}")
        }
        Step::GroupTokenIsForgotten(invocation) => {
            format!(
                "{}: the store forgets that it applied the group",
                number(invocation)
            )
        }
        Step::Crashes(invocation) => format!("{} crashes", number(invocation)),
    }
}

fn changes(before: &State, after: &State) -> Vec<String> {
    let mut changes = Vec::new();
    for (key, name) in ["a", "b"].into_iter().enumerate() {
        let (old, new) = (&before.keys[key], &after.keys[key]);
        if old.record != new.record {
            changes.push(format!("record {name}: {} -> {}", old.record, new.record));
        }
        if old.written != new.written || old.commits != new.commits {
            let written = new.written.map_or_else(
                || "nothing".to_owned(),
                |(by, body)| format!("body {body} of invocation {}", by + 1),
            );
            changes.push(format!("writes {name}: {written}, {} in all", new.commits));
        }
        for payload in [Payload::Original, Payload::Other] {
            let is_new = |state: &State| state.acknowledged[key][payload as usize];
            if is_new(after) && !is_new(before) {
                changes.push(format!("message {name}{payload} is deleted from the queue"));
            }
        }
    }
    for who in after.attempts() {
        let (old, new) = (before.member(who), after.member(who));
        if old.phase != new.phase && new.phase != Phase::Absent {
            changes.push(format!(
                "{who}: {:?}{}",
                new.phase,
                on_their_way(after, who, new)
            ));
        }
    }
    changes
}

fn on_their_way(state: &State, who: Who, member: &Member) -> String {
    let Invocation { group, .. } = &state.invocations[usize::from(who.invocation)];
    let copies = member.copies;
    let mut kinds = vec![
        (copies.claims, "claim"),
        (copies.releases, "release"),
        (group.copies, "group"),
    ];
    kinds.extend(
        copies
            .commits
            .into_iter()
            .zip(["commit of body 0", "commit of body 1"]),
    );
    let kinds: Vec<String> = kinds
        .into_iter()
        .filter(|(copies, _)| *copies > 0)
        .map(|(copies, kind)| format!("{copies} x {kind}"))
        .collect();
    if kinds.is_empty() {
        String::new()
    } else {
        format!(", on their way: {}", kinds.join(", "))
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = ["a", "b"][usize::from(self.key) % KEYS];
        write!(f, "attempt {}{key}", self.invocation + 1)
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Original => "",
            Self::Other => " with another payload",
        })
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("none"),
            Self::InProgress { by, payload } => {
                write!(f, "INPROGRESS by {}{payload}", by + 1)
            }
            Self::Completed { by, payload, body } => {
                write!(f, "COMPLETED by {}, body {body}{payload}", by + 1)
            }
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim => f.write_str("a claim"),
            Self::Commit(body) => write!(f, "a commit of body {body}"),
            Self::Release => f.write_str("a release"),
        }
    }
}

impl fmt::Display for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Early => " with an early time",
            Self::True => "",
            Self::Late => " with a late time",
        })
    }
}

impl fmt::Display for Business {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "",
            Self::FailsWithAlternative => ", its business condition fails, there is an alternative",
            Self::Fails => ", its business condition fails",
        })
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Arrives => "; answered",
            Self::ArrivesWithoutRecord => "; answered without the record",
            Self::IsLost => "; nobody gets an answer",
        })
    }
}
