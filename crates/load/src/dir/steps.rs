//! For tests, with the feature `steps`: something that happens before each call that takes a name,
//! as another process may make it happen.

use std::cell::RefCell;

type Act = Box<dyn FnMut()>;

thread_local! {
    static ACT: RefCell<Option<Act>> = const { RefCell::new(None) };
}

/// Sets what happens before each call of this thread; `None` for nothing.
pub fn on_each_step(act: Option<Act>) {
    ACT.set(act);
}

pub(super) fn step() {
    // Taken out meanwhile, so that the hook can make calls itself.
    if let Some(mut act) = ACT.take() {
        act();
        ACT.set(Some(act));
    }
}
