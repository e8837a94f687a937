//! Flags, the KubeletConfiguration file and its drop-ins become one validated [`Config`].
//!
//! Two steps: the values as written (`flags`, `kubelet_configuration`), each checked against a table; then the settings
//! that they result in (`resolve`: precedence and defaults; `validate`: checks of the merged values). Flags take
//! precedence over drop-ins, drop-ins over the file, the file over the defaults.
//!
//! Invariant: what kubelet 1.36 starts with is taken, and what it refuses is refused (`validate`), but for the
//! differences that `tests/kubelet/differences.txt` lists. What is ignored or has no effect yet is in
//! [`Config::warnings`]: nothing is dropped in silence.
//!
//! Only `files` touches the machine; nothing here logs or prints.

mod error;
mod files;
mod flags;
mod kind;
mod kubelet_configuration;
mod node_name;
mod node_resources;
pub(crate) mod origin;
mod resolve;
mod text;
mod validate;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub(crate) use self::error::ConfigError;
pub use self::flags::help::{FlagRow, flag_rows};
pub(crate) use self::node_resources::{Enforced, NodeResourceSettings, ReservedCgroup};
pub(crate) use self::resolve::{Config, LogFormat};

use self::files::{hostname, list_drop_ins, list_provider_configs, missing_files, read_text};
use self::flags::Flags;
use self::flags::help::help_text;
use self::kubelet_configuration::KubeletConfiguration;
use crate::pod::image::provider::{Provider, ProviderConfigError, parse_providers, refuse_doubles};

/// What the command line asks for. The texts have no newline at the end.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Run with this configuration.
    Run(Box<Config>),
    /// Print this text, the list of flags, and exit.
    Help(String),
    /// Print this line, the version, and exit.
    Version(String),
}

/// The name of this node with this value of `--hostname-override`, which may be empty.
pub(crate) fn this_node_name(hostname_override: &str) -> String {
    node_name::node_name(hostname_override, &hostname())
}

/// Reads the arguments after the program's name, and the files that they name.
pub(crate) fn load(arguments: impl Iterator<Item = OsString>) -> Result<Invocation, ConfigError> {
    let working_directory =
        env::current_dir().map_err(|cause| ConfigError::Read { path: PathBuf::from("."), cause })?;
    let flags = Flags::parse(arguments, &working_directory)?;
    if flags.get("help") == Some(&Value::Bool(true)) {
        return Ok(Invocation::Help(help_text()));
    }
    match flags.get("version") {
        Some(Value::Bool(true)) => {
            return Ok(Invocation::Version(format!("rkubelet v{}", env!("CARGO_PKG_VERSION"))));
        }
        Some(Value::String(_)) => {
            return Ok(Invocation::Version(format!("v{}", env!("CARGO_PKG_VERSION"))));
        }
        _ => {}
    }

    let mut files = KubeletConfiguration::default();
    let mut paths: Vec<PathBuf> = flags.text("config").into_iter().map(PathBuf::from).collect();
    let mut warnings = Vec::new();
    if let Some(directory) = flags.text("config-dir").map(Path::new) {
        let drop_ins = list_drop_ins(directory)?;
        paths.extend(drop_ins.read);
        if !drop_ins.ignored.is_empty() {
            let names: Vec<String> = drop_ins.ignored.iter().map(|path| path.display().to_string()).collect();
            warnings.push(format!(
                "files in --config-dir ignored, their suffix is not .conf: {}",
                names.join(", ")
            ));
        }
    }
    for path in paths {
        let ignored = files.merge_file(&read_text(&path)?, &path)?;
        if flags.is_set("strict-config") && !ignored.is_empty() {
            return Err(ConfigError::Ignored { path, ignored });
        }
        warnings.extend(ignored.iter().map(|part| format!("{}: ignored: {part}", path.display())));
    }

    let mut config = Config::resolve(files, &flags, &hostname())?;
    config.warnings.extend(warnings);
    config.credential_providers = credential_providers(&flags)?;
    let names = config.credential_providers.iter().map(|provider| provider.name.as_str());
    // Pods that do not need one run without it.
    for program in missing_files(&config.credential_provider_bin_dir, names) {
        config.warnings.push(format!("there is no credential provider plugin {}", program.display()));
    }
    Ok(Invocation::Run(Box::new(config)))
}

/// Reads a command line and the files that it names as the agent does, without starting it: the warnings, or why it is
/// refused. For tests beside the crate.
pub fn check_command_line(arguments: impl Iterator<Item = OsString>) -> Result<Vec<String>, String> {
    match load(arguments) {
        Ok(Invocation::Run(config)) => Ok(config.warnings),
        Ok(Invocation::Help(_) | Invocation::Version(_)) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

/// The plugins that the flags name.
fn credential_providers(flags: &Flags) -> Result<Vec<Provider>, ConfigError> {
    const CONFIG: &str = "image-credential-provider-config";
    const BIN_DIR: &str = "image-credential-provider-bin-dir";
    let path = match (flags.text(CONFIG), flags.text(BIN_DIR)) {
        (None, None) => return Ok(Vec::new()),
        (Some(path), Some(_)) => Path::new(path),
        (Some(_), None) => {
            return Err(ConfigError::CredentialProviderFlags { given: CONFIG, missing: BIN_DIR });
        }
        (None, Some(_)) => {
            return Err(ConfigError::CredentialProviderFlags { given: BIN_DIR, missing: CONFIG });
        }
    };
    let at = |path: &Path| {
        let path = path.to_owned();
        move |problem| ConfigError::CredentialProviders { path, problem }
    };
    let mut providers = Vec::new();
    for file in list_provider_configs(path)? {
        providers.extend(parse_providers(&read_text(&file)?).map_err(at(&file))?);
    }
    if providers.is_empty() {
        return Err(at(path)(ProviderConfigError::Empty));
    }
    refuse_doubles(&providers).map_err(at(path))?;
    Ok(providers)
}

#[cfg(test)]
mod tests;
