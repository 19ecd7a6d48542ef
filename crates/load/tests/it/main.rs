//! Victims, floods and commands on real directories, judged by what the kernel and the files say.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's own functions fail with it")]

mod apart;
mod checks;
mod child;
mod commands;
mod dirs;
mod fileio;
mod floods;
mod full_disk;
mod jobs;
mod support;
mod victims;

fn main() {
    if std::env::args().nth(1).is_some_and(|first| first == child::CHILD) {
        return child::in_a_process_of_its_own();
    }
    if std::env::args().nth(1).is_some_and(|first| first == apart::FLOOD) {
        return apart::flood_process();
    }
    let tests = [
        apart::tests(),
        checks::tests(),
        child::tests(),
        commands::tests(),
        dirs::tests(),
        fileio::tests(),
        floods::tests(),
        full_disk::tests(),
        jobs::tests(),
        victims::tests(),
    ];
    floodwall_testing::run(tests.into_iter().flatten().collect())
}
