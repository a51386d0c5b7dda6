//! Makes an input that fails as small as it fails still.

/// Removes ever smaller pieces, as long as what is left fails.
pub(super) fn shrink(mut input: Vec<u8>, fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    // The failure itself has been printed; those of the smaller ones say the same.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut piece = input.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < input.len() {
            let mut smaller = input.clone();
            smaller.drain(at..(at + piece).min(input.len()));
            if fails(&smaller) {
                input = smaller;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    std::panic::set_hook(hook);
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_nothing_to_do_with_the_failure_goes() {
        let fails = |input: &[u8]| input.contains(&b'x') && input.contains(&b'y');
        assert_eq!(shrink(b"some x, and some y too".to_vec(), fails), b"xy");
    }
}
