//! Security contexts of Pods and containers.

use std::collections::HashSet;

use serde_json::Value;

use super::super::grammar::{Errors, descending_path, id, one_of, push_texts, unsupported};
use super::internal;
use crate::field::{FieldError, Path};
use crate::json::Access;
use crate::name;

const SYSCTL_PATTERN: &str =
    r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// The Pod's own context. Upstream keeps the host namespaces in it too.
pub(super) fn validate_pod(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let context = spec.at("securityContext");
    for member in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(errors, &path.field(member), context.int(member));
    }
    let groups = path.field("supplementalGroups");
    for (i, group) in context.list("supplementalGroups").iter().enumerate() {
        id(errors, &groups.index(i), group.as_i64());
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        let at = path.field("shareProcessNamespace");
        errors.push(FieldError::invalid(&at, &true.into(), detail));
    }
    sysctls(errors, &path.field("sysctls"), context.list("sysctls"), spec);
    if let Some(policy) = context.at("fsGroupChangePolicy").as_str() {
        let at = path.field("fsGroupChangePolicy");
        one_of(errors, &at, policy, &["Always", "OnRootMismatch"]);
    }
    seccomp(errors, &path.field("seccompProfile"), context.at("seccompProfile"));
    windows_options(errors, &path.field("windowsOptions"), context.at("windowsOptions"));
    app_armor(errors, &path.field("appArmorProfile"), context.at("appArmorProfile"));
    if let Some(policy) = context.at("supplementalGroupsPolicy").as_str() {
        one_of(errors, &path.field("supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
    }
    if let Some(policy) = context.at("seLinuxChangePolicy").as_str() {
        one_of(errors, &path.field("seLinuxChangePolicy"), policy, &["MountOption", "Recursive"]);
    }
}

pub(super) fn validate_container(
    errors: &mut Errors,
    path: &Path<'_>,
    context: &Value,
    host_users: bool,
) {
    if context.is_null() {
        return;
    }
    if context.flag("privileged") {
        let at = path.field("privileged");
        errors.push(FieldError::forbidden(&at, "disallowed by cluster policy"));
    }
    for member in ["runAsUser", "runAsGroup"] {
        id(errors, &path.field(member), context.int(member));
    }
    if let Some(proc_mount) = context.at("procMount").as_str() {
        let at = path.field("procMount");
        one_of(errors, &at, proc_mount, &["Default", "Unmasked"]);
        if host_users && proc_mount == "Unmasked" {
            let detail = "`hostUsers` must be false to use `Unmasked`";
            errors.push(FieldError::invalid_text(&at, proc_mount, detail));
        }
    }
    seccomp(errors, &path.field("seccompProfile"), context.at("seccompProfile"));
    if context.at("allowPrivilegeEscalation").as_bool() == Some(false) {
        let mut contradiction = |other: &str| {
            let detail = format!("cannot set `allowPrivilegeEscalation` to false and {other}");
            let shown = internal::compact(internal::SECURITY_CONTEXT, context);
            errors.push(FieldError::invalid_raw(path, shown, detail));
        };
        if context.flag("privileged") {
            contradiction("`privileged` to true");
        }
        for capability in context.at("capabilities").list("add") {
            if capability == "CAP_SYS_ADMIN" {
                contradiction("`capabilities.Add` CAP_SYS_ADMIN");
            }
        }
    }
    windows_options(errors, &path.field("windowsOptions"), context.at("windowsOptions"));
    app_armor(errors, &path.field("appArmorProfile"), context.at("appArmorProfile"));
}

fn sysctls(errors: &mut Errors, path: &Path<'_>, sysctls: &[Value], spec: &Value) {
    let mut seen = HashSet::new();
    for (i, sysctl) in sysctls.iter().enumerate() {
        let item = path.index(i);
        let at = item.field("name");
        let name = sysctl.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if !is_sysctl(name) {
            let detail =
                format!("must have at most 253 characters and match regex {SYSCTL_PATTERN}");
            errors.push(FieldError::invalid_text(&at, name, detail));
        } else if seen.contains(name) {
            errors.push(FieldError::duplicate(&at, &name.into()));
        }
        // With the host's namespace, a namespaced sysctl would be the host's.
        let (of_net, of_ipc) = sysctl_namespace(name);
        if of_net && spec.flag("hostNetwork") {
            let detail = "may not be specified when 'hostNetwork' is true";
            errors.push(FieldError::invalid_text(&at, name, detail));
        } else if of_ipc && spec.flag("hostIPC") {
            let detail = "may not be specified when 'hostIPC' is true";
            errors.push(FieldError::invalid_text(&at, name, detail));
        }
        seen.insert(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let segment = |part: &str| {
        let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let bytes = part.as_bytes();
        edge(bytes.first())
            && edge(bytes.last())
            && bytes
                .iter()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
    };
    name.len() <= name::MAX_SUBDOMAIN_CHARS && name.split(['.', '/']).all(segment)
}

/// Whether a sysctl belongs to the network namespace, and whether to the IPC one.
fn sysctl_namespace(name: &str) -> (bool, bool) {
    let name = name.replace('/', ".");
    let ipc = name == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| name.starts_with(prefix));
    (name.starts_with("net."), ipc)
}

fn seccomp(errors: &mut Errors, path: &Path<'_>, profile: &Value) {
    if profile.is_null() {
        return;
    }
    let kind = profile.text("type");
    let type_path = path.field("type");
    if kind.is_empty() {
        let detail = "type is required when seccompProfile is set";
        errors.push(FieldError::required(&type_path, detail));
    } else {
        one_of(errors, &type_path, kind, &PROFILE_TYPES);
    }
    let at = path.field("localhostProfile");
    match (kind, profile.at("localhostProfile").as_str()) {
        ("Localhost", None) => {
            let detail = "must be set when seccomp type is Localhost";
            errors.push(FieldError::required(&at, detail));
        }
        ("Localhost", Some(file)) => descending_path(errors, &at, file),
        (_, Some(_)) => {
            let shown = internal::compact(internal::SECCOMP_PROFILE, profile);
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(FieldError::invalid_raw(&at, shown, detail));
        }
        (_, None) => {}
    }
}

pub(super) fn app_armor(errors: &mut Errors, path: &Path<'_>, profile: &Value) {
    /// The longest path that Linux takes.
    const MAX_PATH_CHARS: usize = 4095;
    if profile.is_null() {
        return;
    }
    let at = path.field("localhostProfile");
    let file = profile.at("localhostProfile").as_str();
    match profile.text("type") {
        "Localhost" => {
            let detail = "must be set when AppArmor type is Localhost";
            let Some(file) = file else {
                errors.push(FieldError::required(&at, detail));
                return;
            };
            if file.trim() != file {
                let detail = "must not be padded with whitespace";
                errors.push(FieldError::invalid_text(&at, file, detail));
            } else if file.is_empty() {
                errors.push(FieldError::required(&at, detail));
            }
            if file.len() > MAX_PATH_CHARS {
                errors.push(FieldError::too_long(&at, MAX_PATH_CHARS));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if let Some(file) = file {
                let detail = "can only be set when AppArmor type is Localhost";
                errors.push(FieldError::invalid_text(&at, file, detail));
            }
        }
        "" => {
            let detail = "type is required when appArmorProfile is set";
            errors.push(FieldError::required(&path.field("type"), detail));
        }
        other => errors.push(unsupported(&path.field("type"), other, &PROFILE_TYPES)),
    }
}

fn windows_options(errors: &mut Errors, path: &Path<'_>, options: &Value) {
    const MAX_SPEC_KIB: usize = 64;
    if let Some(spec) = options.at("gmsaCredentialSpecName").as_str() {
        let texts = name::dns1123_subdomain(spec);
        push_texts(errors, &path.field("gmsaCredentialSpecName"), spec, texts);
    }
    if let Some(spec) = options.at("gmsaCredentialSpec").as_str() {
        let at = path.field("gmsaCredentialSpec");
        if spec.is_empty() {
            let detail = "gmsaCredentialSpec cannot be an empty string";
            errors.push(FieldError::invalid_text(&at, spec, detail));
        } else if spec.len() > MAX_SPEC_KIB * 1024 {
            let detail = format!("gmsaCredentialSpec size must be under {MAX_SPEC_KIB} KiB");
            errors.push(FieldError::invalid_text(&at, spec, detail));
        }
    }
    if let Some(user) = options.at("runAsUserName").as_str() {
        let at = path.field("runAsUserName");
        for text in windows_user(user) {
            errors.push(FieldError::invalid_text(&at, user, text));
        }
    }
}

fn windows_user(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    let mut parts = name.split('\\');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    if parts.next().is_some() {
        return vec!["runAsUserName cannot contain more than one backslash"];
    }
    let (domain, user) = match second {
        Some(user) => (Some(first), user),
        None => (None, first),
    };
    let mut texts = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= 256 {
            texts.push("runAsUserName's Domain length must be under 256 characters");
        }
        if !is_netbios(domain) && !is_windows_domain(domain) {
            texts.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        texts.push("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        texts.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        texts.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user
        .contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']'])
    {
        texts.push(
            r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#,
        );
    }
    texts
}

fn is_netbios(domain: &str) -> bool {
    let forbidden = |c: char| matches!(c, '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(forbidden)
}

fn is_windows_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = label.as_bytes();
        bytes.len() <= 63
            && edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
    })
}

/// Members that mean nothing on Windows, in the order in which upstream complains of them. The
/// first part stands in the Pod's context, the second beside it in the spec.
const NOT_ON_WINDOWS: [(&str, bool); 15] = [
    ("appArmorProfile", true),
    ("seLinuxOptions", true),
    ("hostUsers", false),
    ("hostPID", false),
    ("hostIPC", false),
    ("seccompProfile", true),
    ("fsGroup", true),
    ("fsGroupChangePolicy", true),
    ("sysctls", true),
    ("shareProcessNamespace", false),
    ("runAsUser", true),
    ("runAsGroup", true),
    ("supplementalGroups", true),
    ("supplementalGroupsPolicy", true),
    ("seLinuxChangePolicy", true),
];
const NOT_IN_WINDOWS_CONTAINERS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// A Pod that names its operating system must not use what only another one has.
pub(super) fn validate_os(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let os = spec.at("os");
    if os.is_null() {
        return;
    }
    let at = path.field("os");
    let windows = match os.text("name") {
        "" => return errors.push(FieldError::required(&at.field("name"), "")),
        "linux" => false,
        "windows" => true,
        other => return errors.push(unsupported(&at, other, &["linux", "windows"])),
    };
    let context_path = path.field("securityContext");
    let context = spec.at("securityContext");
    if windows {
        for (member, in_context) in NOT_ON_WINDOWS {
            let (holder, at) = if in_context { (context, &context_path) } else { (spec, path) };
            let value = holder.at(member);
            if !value.is_null() && value != &Value::Bool(false) || is_false_but_set(member, value) {
                let detail = "cannot be set for a windows pod";
                errors.push(FieldError::forbidden(&at.field(member), detail));
            }
        }
    } else if !context.at("windowsOptions").is_null() {
        let detail = "windows options cannot be set for a linux pod";
        errors.push(FieldError::forbidden(&context_path.field("windowsOptions"), detail));
    }
    super::each_container(spec, path, |container, path| {
        let context = container.at("securityContext");
        let at = path.field("securityContext");
        if windows {
            for member in NOT_IN_WINDOWS_CONTAINERS {
                if !context.at(member).is_null() {
                    let detail = "cannot be set for a windows pod";
                    errors.push(FieldError::forbidden(&at.field(member), detail));
                }
            }
        } else if !context.at("windowsOptions").is_null() {
            let detail = "windows options cannot be set for a linux pod";
            errors.push(FieldError::forbidden(&at.field("windowsOptions"), detail));
        }
    });
}

/// `hostPID: false` is as good as unset; the optional booleans are not.
fn is_false_but_set(member: &str, value: &Value) -> bool {
    value == &Value::Bool(false) && matches!(member, "hostUsers" | "shareProcessNamespace")
}

/// Without the host's users, the host's namespaces are out of reach.
pub(super) fn validate_host_users(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let detail = "when `hostUsers` is false";
    // Two of the paths are capitalised upstream, and clients see them so.
    for (member, shown) in
        [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if spec.flag(member) {
            errors.push(FieldError::forbidden(&path.field(shown), detail));
        }
    }
    super::each_container(spec, path, |container, path| {
        if !container.list("volumeDevices").is_empty() {
            errors.push(FieldError::forbidden(&path.field("volumeDevices"), detail));
        }
    });
}

/// Host process containers are privileged, which this API server allows nobody to be.
pub(super) fn validate_host_process(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let wanted = |holder: &Value| {
        holder.at("securityContext").at("windowsOptions").at("hostProcess").as_bool()
    };
    let of_pod = wanted(spec);
    let (mut all, mut host) = (0, 0);
    super::each_container(spec, path, |container, path| {
        all += 1;
        let own = wanted(container);
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let at = path.field("securityContext");
            let at = at.field("windowsOptions");
            let detail = format!(
                "pod hostProcess value must be identical if both are specified, was {of_pod}"
            );
            errors.push(FieldError::invalid(&at.field("hostProcess"), &own.into(), detail));
        }
        if own.or(of_pod) == Some(true) {
            host += 1;
        }
    });
    if host == 0 {
        return;
    }
    if host != all {
        let detail = "If pod contains any hostProcess containers then all containers must be \
                      HostProcess containers";
        errors.push(FieldError::invalid_text(path, "", detail));
    }
    if !spec.flag("hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(&path.field("hostNetwork"), &false.into(), detail));
    }
    let detail = "hostProcess containers are disallowed by cluster policy";
    errors.push(FieldError::forbidden(path, detail));
}
