//! The container image, the example for Kubernetes and the unit of systemd, as far as they can be compared with the program
//! without running them.

use std::fs;
use std::path::Path;

use harness::{Client, Process};
use serde_json::{Value, json};

use crate::{PROGRAM, folder, run};

fn packaged(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging")
        .join(name);
    fs::read_to_string(path).expect(name)
}

/// The variables that a text sets or names.
fn variables(text: &str) -> Vec<&str> {
    let starts = text
        .match_indices("ANIMAL_STORE_")
        .map(|(start, _)| &text[start..]);
    let is_name = |c: char| c.is_ascii_uppercase() || c == '_';
    starts
        .map(|rest| &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())])
        .collect()
}

/// The object of this kind in the example for Kubernetes.
fn object(kind: &str) -> Value {
    let text = packaged("kubernetes.yaml");
    let objects = text.split("\n---\n");
    let mut objects = objects.map(|text| serde_saphyr::from_str::<Value>(text).expect("YAML"));
    let found = objects.find(|object| object["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn every_variable_in_the_packaging_is_that_of_an_option() {
    let folder = folder();
    let help = run(folder.path(), &[], &["serve", "--help"])
        .exits(0)
        .stdout;
    for name in [
        "Dockerfile",
        "compose.yaml",
        "kubernetes.yaml",
        "animal-store.service",
    ] {
        // The one variable of the build, which --version --verbose shows.
        let text = packaged(name).replace("ANIMAL_STORE_COMMIT", "");
        assert!(!variables(&text).is_empty(), "{name}");
        for variable in variables(&text) {
            let known = [format!("[env: {variable}]"), format!("[env: {variable}=]")];
            // Lines of the help may be broken after the colon.
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                known.iter().any(|known| help.contains(known)),
                "{name}: {variable}"
            );
        }
    }
}

#[test]
fn the_image_is_built_from_its_sources_with_the_locked_dependencies_and_does_not_run_as_root() {
    let image = packaged("Dockerfile");
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    let manifest: toml::Table = manifest.expect("a file").parse().expect("TOML");
    let rust = manifest["package"]["rust-version"]
        .as_str()
        .expect("a version");
    assert!(image.contains(&format!("FROM rust:{rust}-")), "{image}");
    assert!(image.contains("cargo build --release --locked"), "{image}");
    // Another checkout may have left its program in the cache.
    for part in [
        "target=/src/target,sharing=locked ",
        " touch build.rs src/lib.rs src/main.rs && ",
    ] {
        assert!(image.contains(part), "{image}");
    }
    assert!(
        image.contains(r#"CMD ["animal-store", "healthcheck"]"#),
        "{image}"
    );
    let last = image.rsplit("\nFROM ").next().expect("a stage");
    let user = last.lines().find_map(|line| line.strip_prefix("USER "));
    let (user, group) = user.and_then(|user| user.split_once(':')).expect("a user");
    assert_ne!(user.parse(), Ok(0_u32));

    let pod = &object("Deployment")["spec"]["template"]["spec"];
    let context = &pod["securityContext"];
    assert_eq!(context["runAsUser"].to_string(), user);
    assert_eq!(context["runAsGroup"].to_string(), group);
    assert_eq!(context["runAsNonRoot"], true);
    let context = &pod["containers"][0]["securityContext"];
    assert_eq!(context["readOnlyRootFilesystem"], true);
    assert_eq!(context["allowPrivilegeEscalation"], false);
}

#[test]
fn the_objects_for_kubernetes_belong_together() {
    let deployment = object("Deployment");
    let template = &deployment["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    for selector in [
        &deployment["spec"]["selector"]["matchLabels"],
        &object("Service")["spec"]["selector"],
        &object("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        &object("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ] {
        assert_eq!(selector, labels);
    }
    let replicas = deployment["spec"]["replicas"].as_u64();
    let available = object("PodDisruptionBudget")["spec"]["minAvailable"].as_u64();
    assert!(
        available.is_some() && available < replicas,
        "{available:?} of {replicas:?}"
    );
    // The pause before the shutdown, and the ten seconds that the server may take.
    let pod = &template["spec"];
    let container = &pod["containers"][0];
    let pause = container["lifecycle"]["preStop"]["exec"]["command"][1].as_str();
    let pause: u64 = pause.and_then(|pause| pause.parse().ok()).expect("a pause");
    let grace = pod["terminationGracePeriodSeconds"]
        .as_u64()
        .expect("seconds");
    assert!(grace > pause + 10, "{grace}");
    for limit in ["cpu", "memory"] {
        assert!(
            container["resources"]["limits"][limit].is_string(),
            "{limit}"
        );
    }
}

#[test]
fn a_server_with_the_environment_of_the_pod_passes_its_probes() {
    let deployment = object("Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let mut vars = vec![("ANIMAL_STORE_ADMIN_TOKEN", "a-token-from-a-secret")];
    for var in container["env"].as_array().expect("a list") {
        let name = var["name"].as_str().expect("a name");
        // The listeners get free ports from the harness, and there is neither PostgreSQL nor Redis.
        if let Some(value) = var["value"]
            .as_str()
            .filter(|_| name != "ANIMAL_STORE_REDIS")
        {
            vars.push((name, value));
        }
    }
    assert_eq!(container["args"], serde_json::json!(["serve"]));
    let folder = folder();
    let server = Process::serve_with(PROGRAM, folder.path(), &[], &vars);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let probe = &container[probe]["httpGet"];
        let address = match probe["port"].as_str() {
            Some("api") => server.address,
            Some("admin") => server.admin,
            other => panic!("unknown port {other:?}"),
        };
        let response = Client::new(address, None).get(probe["path"].as_str().expect("a path"));
        assert_eq!(response.status, 200, "{response}");
    }
    let ports = container["ports"].as_array().expect("ports");
    for (port, variable) in ports.iter().zip(["LISTEN", "ADMIN_LISTEN"]) {
        let listens = vars
            .iter()
            .find(|(name, _)| *name == format!("ANIMAL_STORE_{variable}"));
        let number = listens.and_then(|(_, value)| value.rsplit(':').next());
        assert_eq!(number, Some(&*port["containerPort"].to_string()), "{port}");
    }
}

#[test]
fn only_the_folder_with_the_data_must_be_writable() {
    let folder = folder();
    fs::write(folder.path().join("a.csv"), "name,categoryId\nRex,1\n").expect("a file");
    // A file system that only the program sees.
    let read_only = "mount --bind . . && cd \"$PWD\" && for at in / /tmp /var/tmp; do
        ! mountpoint -q $at || mount -o remount,bind,ro $at || exit; done && ! touch /tmp/a /var/tmp/a 2>&-";
    let commands = [
        "migrate",
        "keys create --name a --plan free",
        "pets import a.csv",
        "pets export b.csv",
        "backup b.db",
    ];
    let commands = commands.map(|words| format!("{PROGRAM} {words} >>printed"));
    let serve = format!("exec {PROGRAM} serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0");
    let script = format!("{read_only} && {} && {serve}", commands.join(" && "));
    let process = Process::start("unshare", folder.path(), &["-rm", "sh", "-c", &script], &[]);
    let printed = fs::read_to_string(folder.path().join("printed")).expect("a file");
    let key = printed.lines().find(|line| line.starts_with("as_"));
    let client = process.client(key);
    assert_eq!(
        client
            .create(&json!({"name": "Max", "categoryId": 1}))
            .status,
        201
    );
    assert_eq!(client.get("/v1/pets").ids(), [1, 2]);
}

#[test]
fn the_debian_package_is_not_built_without_the_time_of_its_commit() {
    // As in an unpacked archive of the sources, where there is no repository to ask.
    let output = std::process::Command::new("packaging/deb")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("ANIMAL_STORE_COMMIT", "0123456")
        .env_remove("SOURCE_DATE_EPOCH")
        .output()
        .expect("bash runs");
    let line = String::from_utf8(output.stderr).expect("text");
    assert_eq!(
        (output.status.code(), line.lines().count()),
        (Some(1), 1),
        "{line}"
    );
    assert!(
        line.contains("SOURCE_DATE_EPOCH: is needed with ANIMAL_STORE_COMMIT"),
        "{line}"
    );
}
