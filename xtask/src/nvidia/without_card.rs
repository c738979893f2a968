//! NVIDIA's own driver library on a machine without a card.
use super::Findings;
use crate::error::Result;
pub fn check(_findings: &mut Findings) -> Result<()> {
    Ok(())
}
