//! Every input of the corpus holds: what was found once stays found.

use std::path::Path;

use fuzz::TARGETS;

#[test]
fn every_input_of_the_corpus_holds() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(name);
        let mut inputs = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            target(&std::fs::read(path).unwrap());
            inputs += 1;
        }
        assert!(inputs > 0, "{name}");
    }
}
