//! Which cgroup driver the runtime has.

use super::{CriClient, op};
use crate::pod::cgroup_name::CgroupDriver;
use crate::runtime::cri::cgroup_driver::{driver_shown, driver_told};
use crate::runtime::cri::proto::{RuntimeConfigRequest, StatusRequest};
use crate::runtime::cri::{CriError, ErrorClass};

impl CriClient {
    /// The runtime's cgroup driver; none if it does not tell.
    pub async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>, CriError> {
        let mut client = self.runtime.clone();
        let op = op("RuntimeConfig", "runtime_config");
        let request = RuntimeConfigRequest {};
        let answer =
            self.call(op, self.timeouts.request, request, |r| async move { client.runtime_config(r).await });
        match answer.await {
            Ok(answer) => Ok(driver_told(&answer)),
            Err(error) if error.class == ErrorClass::Unimplemented => {
                Ok(driver_shown(&self.ask_status(StatusRequest { verbose: true }).await?))
            }
            Err(error) => Err(error),
        }
    }
}
