//! The servers that one URL names: `SCHEME://USER:PASSWORD@HOST:PORT,HOST:PORT/REST`. Each can be tried separately, so
//! that a server that does not respond does not delay the others.

/// Returns one URL for each server, and their hosts without the password. `None` if the scheme is another.
pub(crate) fn split_url(scheme: &str, url: &str) -> Option<(Vec<String>, String)> {
    let rest = url.strip_prefix(scheme)?.strip_prefix("://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, hosts) = match authority.rfind('@') {
        Some(place) => authority.split_at(place + 1),
        None => ("", authority),
    };
    let each = |host: &str| format!("{scheme}://{user}{host}{path}");
    Some((hosts.split(',').map(each).collect(), hosts.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_gets_the_user_and_the_rest() {
        let (urls, hosts) = split_url("redis", "redis://me:p@ss@a:1,b:2/3?x=y").unwrap();
        assert_eq!(
            urls,
            ["redis://me:p@ss@a:1/3?x=y", "redis://me:p@ss@b:2/3?x=y"]
        );
        assert_eq!(hosts, "a:1,b:2");
        assert_eq!(split_url("redis", "redis://a").unwrap().0, ["redis://a"]);
        assert!(
            split_url("redis", "rediss://a").is_none() && split_url("redis", "redis:a").is_none()
        );
    }
}
