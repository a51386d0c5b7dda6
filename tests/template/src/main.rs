//! Prints what is wrong with the templates that it is given.

use std::process::ExitCode;

use check_template::{Template, problems};

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: check-template TEMPLATE…");
        return ExitCode::from(2);
    }
    let mut is_clean = true;
    for file in files {
        let found = std::fs::read_to_string(&file)
            .map_err(|error| error.to_string())
            .and_then(|text| Template::parse(&text))
            .map(|template| problems(&template))
            .unwrap_or_else(|error| vec![error]);
        is_clean &= found.is_empty();
        for problem in found {
            println!("{file}: {problem}");
        }
    }
    if is_clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
