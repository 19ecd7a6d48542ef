use super::Job;
use crate::error::LoadError;
use crate::running::Worker;
pub(super) fn probe() -> Result<(), LoadError> {
    Err(LoadError::NoUring { errno: rustix::io::Errno::NOSYS })
}
pub(super) fn run(_job: &Job, _worker: &mut Worker<'_>) -> Result<(), LoadError> {
    probe()
}
