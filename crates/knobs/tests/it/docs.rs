//! docs/knobs.md is what the catalogue says.

#[test]
fn the_document_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/knobs.md");
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        stored == floodwall_knobs::catalogue::markdown(),
        "write it again: cargo run -p floodwall-knobs --example knobs-md > docs/knobs.md"
    );
}
