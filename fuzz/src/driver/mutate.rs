//! Inputs that are almost ones of the corpus.

use fastrand::Rng;

use super::values::{VALUES, WORDS, places};

/// Longer inputs only take longer, but for a few.
const USUALLY_AT_MOST: usize = 8 * 1024;

/// Draws one input after the other; the same ones for the same seed.
pub(super) struct Mutator<'c> {
    corpus: &'c [Vec<u8>],
    draws: Rng,
}

impl<'c> Mutator<'c> {
    pub(super) fn new(corpus: &'c [Vec<u8>], seed: u64) -> Self {
        Self {
            corpus,
            draws: Rng::with_seed(seed),
        }
    }

    pub(super) fn next(&mut self) -> Vec<u8> {
        let mut input = self.any();
        if self.draws.u32(..2_000) == 0 {
            self.make_huge(&mut input);
            return input;
        }
        loop {
            self.change(&mut input);
            if self.draws.u8(..3) == 0 {
                break;
            }
        }
        input.truncate(USUALLY_AT_MOST);
        input
    }

    fn any(&mut self) -> Vec<u8> {
        self.draws.choice(self.corpus).cloned().unwrap_or_default()
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        match self.draws.u8(..12) {
            0 => self.change_a_byte(input),
            1 => {
                let at = self.draws.usize(..=input.len());
                let word = self.draws.choice(WORDS).unwrap_or(&"");
                input.splice(at..at, word.bytes());
            }
            2 => {
                let piece = self.piece_of(input);
                input.drain(piece);
            }
            3 => {
                let piece = self.piece_of(input);
                let copy = input[piece.clone()].to_vec();
                input.splice(piece.end..piece.end, copy);
            }
            4 => {
                let other = self.any();
                let from = self.draws.usize(..=other.len());
                let at = self.draws.usize(..=input.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            5 | 6 => self.change_within_text(input),
            _ => self.change_a_value(input),
        }
    }

    fn change_a_byte(&mut self, input: &mut Vec<u8>) {
        if input.is_empty() {
            input.push(self.draws.u8(..));
            return;
        }
        let at = self.draws.usize(..input.len());
        match self.draws.u8(..4) {
            0 => input[at] ^= 1 << self.draws.u8(..8),
            1 => input[at] = self.draws.u8(..),
            2 => input.insert(at, self.draws.u8(..)),
            _ => drop(input.remove(at)),
        }
    }

    fn piece_of(&mut self, input: &[u8]) -> std::ops::Range<usize> {
        let from = self.draws.usize(..=input.len());
        let longest = (input.len() - from).min(1 << self.draws.u8(..10));
        from..from + self.draws.usize(..=longest)
    }

    /// Puts another JSON value in the place of one, or has it twice or not at all.
    fn change_a_value(&mut self, input: &mut Vec<u8>) {
        let Some(place) = self.draws.choice(places(input)) else {
            return self.change_a_byte(input);
        };
        match self.draws.u8(..8) {
            0 => drop(input.drain(place)),
            1 => {
                let mut copy = b",".to_vec();
                copy.extend_from_slice(&input[place.clone()]);
                input.splice(place.end..place.end, copy);
            }
            2 | 3 => {
                let other = if self.draws.bool() {
                    self.any()
                } else {
                    input.clone()
                };
                if let Some(from) = self.draws.choice(places(&other)) {
                    input.splice(place, other[from].iter().copied());
                }
            }
            4 => {
                let value = String::from_utf8_lossy(&input[place.clone()]).into_owned();
                input.splice(place, format!("{value:?}").bytes());
            }
            5 => {
                input.splice(place.end..place.end, *b"]");
                input.splice(place.start..place.start, *b"[");
            }
            _ => {
                let value = self.draws.choice(VALUES).unwrap_or(&"");
                input.splice(place, value.bytes());
            }
        }
    }

    /// Changes what a text holds, which is JSON itself in a body and in an envelope.
    fn change_within_text(&mut self, input: &mut Vec<u8>) {
        let is_text = |place: &std::ops::Range<usize>| input[place.start] == b'"';
        let texts: Vec<_> = places(input).into_iter().filter(is_text).collect();
        let Some(place) = self.draws.choice(texts) else {
            return self.change_a_value(input);
        };
        let Ok(text) = serde_json::from_slice::<String>(&input[place.clone()]) else {
            return self.change_a_byte(input);
        };
        let mut inner = text.into_bytes();
        self.change(&mut inner);
        let inner = String::from_utf8_lossy(&inner);
        input.splice(place, serde_json::to_vec(&inner).unwrap_or_default());
    }

    /// Nests deeply, or makes one value long.
    fn make_huge(&mut self, input: &mut Vec<u8>) {
        let Some(place) = self.draws.choice(places(input)) else {
            return;
        };
        let times = self.draws.usize(100..20_000);
        let huge = match self.draws.u8(..5) {
            0 => "[".repeat(times) + &"]".repeat(times),
            1 => r#"{"a":"#.repeat(times) + "1" + &"}".repeat(times),
            2 => format!("\"{}\"", "x".repeat(times)),
            3 => "9".repeat(times),
            _ => format!("[{}0]", "0,".repeat(times)),
        };
        input.splice(place, huge.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_inputs_again_and_another_gives_others() {
        let corpus = [br#"{"Records":[{"messageId":"m","body":"{\"a\":[1]}"}]}"#.to_vec()];
        let draw = |seed| {
            let mut mutator = Mutator::new(&corpus, seed);
            (0..500).map(|_| mutator.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let is_json = |input: &Vec<u8>| serde_json::from_slice::<serde_json::Value>(input).is_ok();
        let json = draw(1).into_iter().filter(is_json);
        // Most mutations of JSON keep it JSON, or they would all end at the first reader.
        assert!(json.count() > 100);
    }
}
