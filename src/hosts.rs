//! The servers that one URL names: `SCHEME://USER:PASSWORD@HOST:PORT,HOST:PORT/REST`. Each can be tried separately, so
//! that a server that does not respond does not delay the others.

use crate::percent::decode;

/// Returns one URL for each server, and their hosts without the password. `None` if the scheme differs.
pub(crate) fn split_url(scheme: &str, url: &str) -> Option<(Vec<String>, String)> {
    let rest = url.strip_prefix(scheme)?.strip_prefix("://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, hosts) = match authority.rfind('@') {
        Some(at) => authority.split_at(at + 1),
        None => ("", authority),
    };
    let each = |host: &str| format!("{scheme}://{user}{host}{path}");
    Some((hosts.split(',').map(each).collect(), hosts.to_owned()))
}

/// Returns the URL without these parameters, and their values. `None` if one of them is malformed, or given twice.
pub(crate) fn take_parameters<const N: usize>(
    url: &str,
    names: [&str; N],
) -> Option<(String, [Option<String>; N])> {
    let mut values = [const { None }; N];
    let Some((start, query)) = url.split_once('?') else {
        return Some((url.to_owned(), values));
    };
    let mut rest = Vec::new();
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match names.iter().position(|known| *known == name) {
            Some(index) => {
                let value = decode(value)?.into_owned();
                if values[index].replace(value).is_some() {
                    return None;
                }
            }
            None => rest.push(parameter),
        }
    }
    let url = match rest.is_empty() {
        true => start.to_owned(),
        false => format!("{start}?{}", rest.join("&")),
    };
    Some((url, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_taken_out_of_a_url() {
        let taken = |url| take_parameters(url, ["sslmode", "sslcert"]);
        let values =
            |one: Option<&str>, two: Option<&str>| [one, two].map(|v| v.map(str::to_owned));
        assert_eq!(taken("a://b/c"), Some(("a://b/c".into(), [None, None])));
        assert_eq!(
            taken("a://b/c?sslmode=require"),
            Some(("a://b/c".into(), values(Some("require"), None)))
        );
        assert_eq!(
            taken("a://b/c?x=%20&sslcert=a%20b.pem&y"),
            Some(("a://b/c?x=%20&y".into(), values(None, Some("a b.pem"))))
        );
        assert_eq!(taken("a://b?sslmode=a&sslmode=b"), None);
        assert_eq!(taken("a://b?sslcert=%zz"), None);
    }

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
