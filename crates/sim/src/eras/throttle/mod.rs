//! The throttling of writers before 4.10: a file for each generation, under its name.
//!
//! What 3.2 shares with 6.x (position control, pauses, estimates) is in [`crate::throttle`].

pub mod proportions;
pub mod v2_6_18;
pub mod v2_6_32;
pub mod v3_2;
