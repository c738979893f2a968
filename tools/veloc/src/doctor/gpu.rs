//! Devices and their driver.

use std::path::Path;

use config::Config;
use device::{probe, DeviceInfo, Probe};
use os::numa;
use os::size;

use super::Finding;

const AREA: &str = "gpu";

/// The file in which NVIDIA's kernel module describes itself.
const MODULE: &str = "/proc/driver/nvidia/version";

/// Asks the driver, without making a context.
pub(super) fn look(config: Option<&Config>) -> Vec<Finding> {
    let module = std::fs::read_to_string(MODULE).unwrap_or_default();
    let module = module_version(&module);
    match probe() {
        Err(error) => vec![Finding::ok(AREA, "driver", error.to_string())
            .problem("the driver does not serve: look at nvidia-smi and the system's log")],
        Ok(Probe::NoDriver(_)) if Path::new(MODULE).exists() => {
            vec![Finding::ok(AREA, "driver", "the kernel module is loaded, but no libcuda.so.1")
                .problem("install the driver's library, or name its directory in LD_LIBRARY_PATH")]
        }
        Ok(Probe::NoDriver(_)) => vec![Finding::ok(AREA, "driver", "none (no libcuda.so.1)")
            .note("host memory alone is kept; for device memory use a node with a driver")],
        Ok(Probe::NoDevice) => vec![Finding::ok(AREA, "device", "the driver has none").note(
            match std::env::var_os("CUDA_VISIBLE_DEVICES") {
                Some(value) => {
                    format!("CUDA_VISIBLE_DEVICES = {:?} may hide it", value.to_string_lossy())
                }
                None => "host memory alone is kept".to_owned(),
            },
        )],
        Ok(Probe::Devices { driver_version, software, devices }) => {
            let mut driver =
                format!("CUDA {}.{}", driver_version / 1000, driver_version % 1000 / 10);
            if let (Some(module), false) = (module, software) {
                driver += &format!(", driver {module}");
            }
            let driver = match software {
                true => Finding::ok(AREA, "driver", format!("{driver}, the software device"))
                    .note("it is no GPU: no time measured on it says anything about one"),
                false => Finding::ok(AREA, "driver", driver),
            };
            let mut findings = vec![driver];
            for (ordinal, found) in devices.iter().enumerate() {
                findings.extend(device(ordinal, found, config));
            }
            findings
        }
    }
}

/// The findings about one device.
fn device(ordinal: usize, found: &DeviceInfo, config: Option<&Config>) -> Vec<Finding> {
    let memory = size::show(found.total);
    let near = match numa::node_of_pci(&found.bus_id) {
        Some(node) => format!(", near memory node {node}"),
        None => String::new(),
    };
    let mut name =
        Finding::ok(AREA, format!("device {ordinal}"), format!("{}, {memory}{near}", found.name));
    let asked = config.and_then(|config| config.gpu_cache_size);
    if let Some(asked) = asked.filter(|asked| asked.first > found.total) {
        name = name.problem(format!("gpu_cache_size = {asked} is more than it has; set it lower"));
    }
    let has = |what: &str, has: bool, without: &str| {
        let finding = Finding::ok(AREA, what, if has { "yes" } else { "no" });
        if has {
            finding
        } else {
            finding.note(without)
        }
    };
    vec![
        name,
        has(
            "mapping piecewise",
            found.capabilities.virtual_memory,
            "there is no device cache: checkpoints go to the host buffer at once; a newer driver \
             may have it",
        ),
        has(
            "registering memory",
            found.capabilities.host_register || found.capabilities.pageable_access,
            "copies go through the driver's own buffers and are slower; a newer driver may have it",
        ),
    ]
}

/// The version in a line such as `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue`.
fn module_version(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let is_version = |word: &&str| {
        word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    line.split_whitespace().find(is_version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;
    use xtask::on_device;

    #[test]
    fn versions_of_the_module() {
        for (text, version) in [
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024\nGCC",
                Some("550.54.15"),
            ),
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release",
                Some("570.86.15"),
            ),
            ("", None),
            ("GCC version: 12.2.0", None),
        ] {
            assert_eq!(module_version(text), version);
        }
    }

    /// Catches a probe that finds no device where there is one, and a cache that fits none.
    #[test]
    fn the_software_device_is_found() {
        on_device::run(|| {
            let text = "mode = sync\nephemeral = true\ngpu_cache_size = 4096G";
            let (config, _) = Config::from_text(text, |_| None).unwrap();
            let findings = look(Some(&config));
            let of = |what: &str| findings.iter().find(|finding| finding.what == what).unwrap();
            assert!(of("driver").found.contains("software device"), "{findings:?}");
            assert_eq!(of("driver").state, Severity::Note);
            assert!(of("device 0").found.contains("4 GiB"), "{findings:?}");
            assert_eq!(of("device 0").state, Severity::Problem);
            assert_eq!(of("mapping piecewise").state, Severity::Ok);
            let (config, _) = Config::from_text("mode = sync\nephemeral = true", |_| None).unwrap();
            let findings = look(Some(&config));
            assert!(findings.iter().all(|finding| finding.state != Severity::Problem));
        });
    }
}
