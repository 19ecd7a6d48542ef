//! A journal as a crash may have left it. The whole lines of a journal that is read are read alike
//! by themselves.

#![no_main]

use floodwall_knobs::journal::Transaction;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((_, whole)) = Transaction::parse(bytes) {
        let whole = usize::try_from(whole).expect("no longer than the input");
        assert!(Transaction::parse(&bytes[..whole]).is_ok());
    }
});
