//! Text for the terminal: in one line, cut, padded, grouped.

/// Text from files and errors in one line, without anything that a terminal would act on.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Breaks text between words into lines of at most this width; a longer word has its own line.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Colours count as text to the formatter, so padding comes before them.
pub(super) fn pad(text: &str, width: usize) -> String {
    format!("{text:width$}")
}

/// `1 message`, `2 messages`.
pub(super) fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// 1234567 as `1 234 567`.
pub(super) fn grouped(number: i128) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    if number < 0 {
        format!("-{grouped}")
    } else {
        grouped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_from_the_right() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (-1_000, "-1 000"),
            (1_234_567, "1 234 567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn what_a_terminal_would_act_on_is_taken_out() {
        assert_eq!(one_line("a\n  b\u{1b}[31m"), "a b\u{fffd}[31m");
    }

    #[test]
    fn long_text_is_cut_to_the_width() {
        assert_eq!(cut("four", 4), "four");
        assert_eq!(cut("longer", 4), "lon…");
    }

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("", 7), [""]);
        assert_eq!(wrap("longer than", 3), ["longer", "than"]);
    }
}
