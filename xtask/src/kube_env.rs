//! `cargo xtask kube-env`: a real Kubernetes control plane, to compare the embedded one with.
//!
//! The binaries are built from the Go module registry, once per version and user, into a folder
//! outside of the checkout. Go is all that is needed.

use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::process::{print_line, read};

/// What the transcripts of the conformance suite were recorded with.
const VERSION: &str = "1.36.3";
/// The one in Kubernetes' own go.mod.
const ETCD_VERSION: &str = "3.6.8";
/// Plays the kubelets of nodes that are not there.
const KWOK_VERSION: &str = "0.8.0";
const COMMANDS: [&str; 4] =
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// Builds what is missing and prints, for a shell, where it is.
pub(crate) fn run() -> Result<()> {
    let assets = ensure()?;
    writeln!(std::io::stdout(), "export KUBEBUILDER_ASSETS={}", assets.display())
        .context("cannot print where the binaries are")
}

/// The folder of the binaries, which are there when this returns.
pub(crate) fn ensure() -> Result<PathBuf> {
    let cache = cache_folder(std::env::var_os("XDG_CACHE_HOME"), std::env::home_dir())?;
    let versions = cache.join("sojourn/kube-env");
    let assets = versions.join(VERSION).join("bin");
    let kwok = assets.join("kwok");
    if is_complete(&assets) && kwok.is_file() {
        return Ok(assets);
    }
    std::fs::create_dir_all(&versions)
        .with_context(|| format!("cannot create {}", versions.display()))?;
    let _lock = lock(&versions.join("lock"))?;
    // Another run may have finished while this one waited for it.
    require_go()?;
    if !is_complete(&assets) {
        build(&versions, &assets)?;
    }
    if !kwok.is_file() {
        build_kwok(&versions, &kwok)?;
    }
    Ok(assets)
}

fn cache_folder(xdg: Option<std::ffi::OsString>, home: Option<PathBuf>) -> Result<PathBuf> {
    let xdg = xdg.map(PathBuf::from).filter(|folder| folder.is_absolute());
    match (xdg, home) {
        (Some(folder), _) => Ok(folder),
        (None, Some(home)) => Ok(home.join(".cache")),
        (None, None) => bail!("neither $XDG_CACHE_HOME nor a home folder is known"),
    }
}

fn is_complete(assets: &Path) -> bool {
    COMMANDS.iter().chain(&["etcd"]).all(|name| assets.join(name).is_file())
}

/// Held until dropped, so that two runs do not build the same thing.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            print_line("kube-env: another run is building it; waiting");
            file.lock().context("cannot wait for the other run")?;
        }
        Err(TryLockError::Error(error)) => return Err(error).context("cannot lock the cache"),
    }
    Ok(file)
}

fn require_go() -> Result<()> {
    let found =
        Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    bail!(
        "Kubernetes {VERSION} is built with Go, and there is no `go` on the PATH; install Go 1.26 \
         or newer from go.dev/dl (distributions often have an older one; from 1.21 on it fetches \
         the right one by itself)"
    )
}

/// Kubernetes' own end-to-end tests, beside the binaries; they are there when this returns.
pub(crate) fn ensure_e2e() -> Result<PathBuf> {
    let assets = ensure()?;
    let program = assets.join("e2e.test");
    let versions = assets.ancestors().nth(2).context("the binaries' folder has parents")?;
    let _lock = lock(&versions.join("lock"))?;
    if !program.is_file() {
        build_e2e(versions, &program)?;
    }
    Ok(program)
}

fn build_e2e(versions: &Path, program: &Path) -> Result<()> {
    print_line(
        "kube-env: building Kubernetes' own end-to-end tests (about 5 minutes on two cores, once)",
    );
    let module = versions.join(format!("e2e-{VERSION}.partial"));
    let sample = format!("-require=k8s.io/sample-apiserver@v0{}", &VERSION[1..]);
    kubernetes_module(&module, &[&sample])?;
    let package = "k8s.io/kubernetes/test/e2e";
    std::fs::write(module.join("e2e.go"), format!("package e2e\n\nimport _ \"{package}\"\n"))
        .context("cannot write a Go file")?;
    let go = |arguments: &[&str]| go(&module, arguments);
    go(&["mod", "tidy", "-e"])?;
    go(&["test", "-c", "-trimpath", "-ldflags", &version_flags(), "-o", "e2e.test", package])?;
    let built = module.join("e2e.test");
    std::fs::rename(&built, program)
        .with_context(|| format!("cannot move {} to {}", built.display(), program.display()))?;
    clear(&module)
}

/// Makes a Go module in a new folder that depends on Kubernetes.
fn kubernetes_module(module: &Path, requirements: &[&str]) -> Result<()> {
    clear(module)?;
    std::fs::create_dir_all(module)
        .with_context(|| format!("cannot create {}", module.display()))?;
    let go = |arguments: &[&str]| go(module, arguments);

    go(&["mod", "init", "kube-env"])?;
    let downloaded = go(&["mod", "download", "-json", &format!("k8s.io/kubernetes@v{VERSION}")])?;
    let downloaded: serde_json::Value =
        serde_json::from_str(&downloaded).context("go's description of the module")?;
    let sources = downloaded["Dir"].as_str().context("go did not say where the module is")?;
    let manifest =
        std::fs::read_to_string(Path::new(sources).join("go.mod")).context("Kubernetes' go.mod")?;
    let mut edits: Vec<String> = vec!["mod".into(), "edit".into()];
    edits.extend(requirements.iter().map(|&requirement| requirement.to_owned()));
    edits.push(format!("-require=k8s.io/kubernetes@v{VERSION}"));
    // Kubernetes replaces these by folders of its own tree, which only works within it. They are
    // published under version 0 with the same minor.
    for staged in staged_modules(&manifest) {
        edits.push(format!("-replace={staged}={staged}@v0{}", &VERSION[1..]));
    }
    go(&edits.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok(())
}

/// Builds in a folder beside the final one, which only a finished build is moved to.
fn build(versions: &Path, assets: &Path) -> Result<()> {
    print_line(&format!(
        "kube-env: building Kubernetes {VERSION} (about 5 minutes on two cores, once)"
    ));
    let module = versions.join(format!("{VERSION}.partial"));
    kubernetes_module(&module, &[])?;
    let go = |arguments: &[&str]| go(&module, arguments);
    let packages = COMMANDS.map(|command| format!("k8s.io/kubernetes/cmd/{command}"));
    let packages = packages.each_ref().map(String::as_str);
    let etcd = "go.etcd.io/etcd/server/v3";
    let wanted_etcd = format!("{etcd}@v{ETCD_VERSION}");
    go(&[&["get", "-tool"], packages.as_slice(), &[wanted_etcd.as_str()]].concat())?;

    print_line(
        "kube-env: compiling kube-apiserver, kube-controller-manager, kube-scheduler, kubectl",
    );
    go(&[
        &["build", "-trimpath", "-ldflags", &version_flags(), "-o", "bin/"],
        packages.as_slice(),
    ]
    .concat())?;
    print_line("kube-env: compiling etcd");
    go(&["build", "-trimpath", "-ldflags", "-s -w", "-o", "bin/etcd", etcd])?;

    let built = module.join("bin");
    if !is_complete(&built) {
        bail!("the build left out a binary; see {}", built.display());
    }
    clear(assets)?;
    let parent = assets.parent().context("the binaries' folder has a parent")?;
    std::fs::create_dir_all(parent)
        .with_context(|| format!("cannot create {}", parent.display()))?;
    std::fs::rename(&built, assets)
        .with_context(|| format!("cannot move {} to {}", built.display(), assets.display()))?;
    clear(&module)
}

/// A program of its own, with dependencies of its own.
fn build_kwok(versions: &Path, kwok: &Path) -> Result<()> {
    print_line(&format!(
        "kube-env: building kwok {KWOK_VERSION} (about 2 minutes on two cores, once)"
    ));
    let folder = versions.join(format!("kwok-{KWOK_VERSION}.partial"));
    clear(&folder)?;
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let package = format!("sigs.k8s.io/kwok/cmd/kwok@v{KWOK_VERSION}");
    let mut install = Command::new("go");
    install.args(["install", "-trimpath", "-ldflags", "-s -w", &package]);
    read(alone(install.current_dir(&folder).env("GOBIN", &folder)))?;
    let built = folder.join("kwok");
    std::fs::rename(&built, kwok)
        .with_context(|| format!("cannot move {} to {}", built.display(), kwok.display()))?;
    clear(&folder)
}

/// Without these the server calls itself v0.0.0, and feature gates and clients misbehave.
fn version_flags() -> String {
    let mut numbers = VERSION.split('.');
    let (major, minor) = (numbers.next().unwrap_or("0"), numbers.next().unwrap_or("0"));
    let package = "k8s.io/component-base/version";
    format!(
        "-s -w -X {package}.gitVersion=v{VERSION} -X {package}.gitMajor={major} \
         -X {package}.gitMinor={minor}"
    )
}

/// The modules that a go.mod replaces by folders below `./staging`.
fn staged_modules(manifest: &str) -> Vec<&str> {
    manifest
        .lines()
        .filter_map(|line| {
            let (module, folder) = line.split_once(" => ")?;
            let module = module.trim().trim_start_matches("replace ").trim_start();
            folder.trim_start().starts_with("./staging/").then_some(module)
        })
        .collect()
}

/// Runs go in the folder, with its messages on our stderr; returns its stdout.
fn go(folder: &Path, arguments: &[&str]) -> Result<String> {
    read(alone(Command::new("go").args(arguments).current_dir(folder)))
}

/// Whatever else go is told to do here is for other builds.
fn alone(go: &mut Command) -> &mut Command {
    go.env("CGO_ENABLED", "0").env("GOWORK", "off").env_remove("GOFLAGS")
}

fn clear(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_desktop_says_or_below_home() {
        let home = || Some(PathBuf::from("/users/u"));
        for (xdg, home, expected) in [
            (Some("/var/cache/u"), home(), Some("/var/cache/u")),
            (None, home(), Some("/users/u/.cache")),
            // The specification says to ignore relative ones.
            (Some("relative"), home(), Some("/users/u/.cache")),
            (Some(""), home(), Some("/users/u/.cache")),
            (None, None, None),
        ] {
            let folder = cache_folder(xdg.map(Into::into), home).ok();
            assert_eq!(folder, expected.map(PathBuf::from));
        }
    }

    #[test]
    fn staged_modules_are_those_replaced_by_folders() {
        let manifest = "module k8s.io/kubernetes\n\nrequire k8s.io/klog/v2 v2.1.0\n\nreplace (\n\
                        \tk8s.io/api => ./staging/src/k8s.io/api\n\
                        \tk8s.io/apimachinery => ./staging/src/k8s.io/apimachinery\n\
                        \texample.com/x => example.com/y v1.0.0\n)\n\
                        replace k8s.io/kubectl => ./staging/src/k8s.io/kubectl\n";
        assert_eq!(
            staged_modules(manifest),
            ["k8s.io/api", "k8s.io/apimachinery", "k8s.io/kubectl"]
        );
    }

    #[test]
    fn a_folder_is_complete_only_with_every_binary() {
        let folder = std::env::temp_dir().join(format!("kube-env-test-{}", std::process::id()));
        clear(&folder).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        for name in COMMANDS {
            std::fs::write(folder.join(name), "").unwrap();
        }
        assert!(!is_complete(&folder));
        std::fs::write(folder.join("etcd"), "").unwrap();
        assert!(is_complete(&folder));
        clear(&folder).unwrap();
        assert!(!is_complete(&folder));
    }

    #[test]
    fn the_server_knows_its_version() {
        let flags = version_flags();
        for flag in [".gitVersion=v1.36.3", ".gitMajor=1", ".gitMinor=36"] {
            assert!(flags.contains(flag), "{flag} is not in {flags}");
        }
    }
}
