//! Signatures of requests, verified: `wire/signature.py` says what they cover.

use crate::command::{self, Field, EXT_FIELDS};
use crate::guard::guarded;
use crate::json::unescape;
use pyo3::prelude::*;
use pyo3::types::PyString;
use sha1::{Digest, Sha1};
use std::collections::HashMap;
use std::ops::Range;

const BLOCK_BYTES: usize = 64;
const ACCESS_KEY: &[u8] = b"AccessKey";
const SIGNATURE: &[u8] = b"Signature";
const PROPERTIES: &[u8] = b"i";
const UNIQUE_KEY_QUERY: &[u8] = b"_UNIQUE_KEY_QUERY"; // covered by some clients and not by others
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A secret made ready: HMAC-SHA1 with both padded blocks hashed once.
pub struct SigningKey {
    inner: Sha1,
    outer: Sha1,
}

impl SigningKey {
    pub fn new(secret: &[u8]) -> Self {
        let mut block = [0u8; BLOCK_BYTES];
        if secret.len() > BLOCK_BYTES {
            block[..20].copy_from_slice(&Sha1::digest(secret));
        } else {
            block[..secret.len()].copy_from_slice(secret);
        }
        let padded = |pad: u8| Sha1::new_with_prefix(block.map(|byte| byte ^ pad));
        SigningKey { inner: padded(0x36), outer: padded(0x5C) }
    }

    /// Whether that is the signature of the content; found out in constant time.
    pub fn matches(&self, claimed: &[u8], fields: &[u8], body: &[u8]) -> bool {
        let inner = self.inner.clone().chain_update(fields).chain_update(body).finalize();
        let expected = base64(&self.outer.clone().chain_update(inner).finalize().into());
        let difference = claimed.iter().zip(expected).fold(0, |all, (one, other)| all | (one ^ other));
        claimed.len() == expected.len() && std::hint::black_box(difference) == 0
    }
}

fn base64(digest: &[u8; 20]) -> [u8; 28] {
    let mut text = [b'='; 28];
    for (number, three) in digest.chunks(3).enumerate() {
        let word = three.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - three.len()));
        for place in 0..=three.len() {
            text[number * 4 + place] = BASE64[(word >> (18 - 6 * place)) as usize & 63];
        }
    }
    text
}

/// What a request says of its sender, not believed yet; texts are kept from call to call.
#[derive(Default)]
pub struct Claim {
    pub access_key: Vec<u8>,
    pub signature: Vec<u8>,
    pub content: Vec<u8>,         // without the body
    pub properties: Range<usize>, // in the content: those of a send, field i
    order: Vec<usize>,            // of the fields by their names: that of the request before, tried first
}

impl Claim {
    /// None when there is something that Python has to look at.
    pub fn read(&mut self, fields: &[Field<'_>]) -> Option<()> {
        if self.order.len() != fields.len() || !is_ascending(fields, &self.order) {
            self.order.clear();
            self.order.extend(0..fields.len());
            self.order.sort_unstable_by_key(|&number| fields[number].0);
            if !is_ascending(fields, &self.order) {
                self.order.clear();
                return None; // a name twice
            }
        }
        self.access_key.clear();
        self.signature.clear();
        self.content.clear();
        self.properties = 0..0;
        for &number in &self.order {
            let (name, value) = fields[number];
            if !name.is_ascii() || name == UNIQUE_KEY_QUERY {
                return None; // Java's order of names is another one beyond ASCII
            }
            match name {
                SIGNATURE => unescape(value, &mut self.signature)?,
                ACCESS_KEY => {
                    unescape(value, &mut self.access_key)?;
                    unescape(value, &mut self.content)?;
                }
                PROPERTIES => {
                    let start = self.content.len();
                    unescape(value, &mut self.content)?;
                    self.properties = start..self.content.len();
                }
                _ => unescape(value, &mut self.content)?,
            }
        }
        (!self.access_key.is_empty() && !self.signature.is_empty()).then_some(())
    }
}

/// Whether the order puts each name before the next: then it is theirs, and no name is there twice.
#[inline]
fn is_ascending(fields: &[Field<'_>], order: &[usize]) -> bool {
    order.windows(2).all(|pair| {
        let (one, next) = (fields[pair[0]].0, fields[pair[1]].0);
        match (one.first(), next.first()) {
            (Some(first), Some(second)) if first != second => first < second,
            _ => one < next,
        }
    })
}

/// The ext fields of the JSON header of any request; read as strictly as those of sends.
fn ext_fields(text: &[u8]) -> Option<Vec<Field<'_>>> {
    std::str::from_utf8(text).ok()?;
    let mut fields = Vec::new();
    let command = command::read(text, |cursor| {
        cursor.object(|cursor, name| command::keep(&mut fields, name, cursor.string()?).map(|()| 0)).map(|_| ())
    })?;
    command.has(EXT_FIELDS).then_some(fields)
}

/// Keys of users whose requests Python has verified before. It only says who signed a request: who may do what, and who
/// is still a user, is asked elsewhere.
#[pyclass]
#[derive(Default)]
pub struct SigningKeys {
    users: HashMap<Vec<u8>, (Py<PyString>, SigningKey)>,
    claim: Claim,
}

#[pymethods]
impl SigningKeys {
    #[new]
    fn new() -> Self {
        SigningKeys::default()
    }

    fn add(&mut self, user: Bound<'_, PyString>, secret: &[u8]) -> PyResult<()> {
        guarded(|| {
            let name = user.to_str()?.as_bytes().to_vec();
            self.users.insert(name, (user.unbind(), SigningKey::new(secret)));
            Ok(())
        })
    }

    /// Users have changed.
    fn clear(&mut self) {
        self.users.clear();
    }

    fn __len__(&self) -> usize {
        self.users.len()
    }

    /// Who signed the request with this JSON header; None: Python has to look at it.
    ///
    /// Raises RuntimeError for a defect.
    fn signer(&mut self, py: Python<'_>, header: &[u8], body: &[u8]) -> PyResult<Option<Py<PyString>>> {
        guarded(|| Ok(self.verified(header, body).map(|user| user.clone_ref(py))))
    }
}

impl SigningKeys {
    fn verified(&mut self, header: &[u8], body: &[u8]) -> Option<&Py<PyString>> {
        self.claim.read(&ext_fields(header)?)?;
        let (user, key) = self.users.get(&self.claim.access_key)?;
        key.matches(&self.claim.signature, &self.claim.content, body).then_some(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_rfc_2202() {
        let key = SigningKey::new(b"Jefe");
        let expected = b"7/zfauXrL6LSdL9AuP9AgxvMnHk="; // effcdf6ae5eb2fa2d27416d5f184df9c259a7c79 is for another text
        assert!(!key.matches(expected, b"what do ya want ", b"for nothing?"));
        let digest = [
            0xef, 0xfc, 0xdf, 0x6a, 0xe5, 0xeb, 0x2f, 0xa2, 0xd2, 0x74, 0x16, 0xd5, 0xf1, 0x84, 0xdf, 0x9c, 0x25, 0x9a,
            0x7c, 0x79,
        ];
        assert!(key.matches(&base64(&digest), b"what do ya want ", b"for nothing?"));
        let long = SigningKey::new(&[0xAA; 80]);
        let digest = [
            0xaa, 0x4a, 0xe5, 0xe1, 0x52, 0x72, 0xd0, 0x0e, 0x95, 0x70, 0x56, 0x37, 0xce, 0x8a, 0x3b, 0x55, 0xed, 0x40,
            0x21, 0x12,
        ];
        assert!(long.matches(&base64(&digest), b"Test Using Larger Than Block-Size Key - Hash Key First", b""));
    }

    #[test]
    fn every_other_signature_is_wrong() {
        let key = SigningKey::new(b"secret");
        let inner = key.inner.clone().chain_update(b"x").finalize();
        let right = base64(&key.outer.clone().chain_update(inner).finalize().into());
        assert!(key.matches(&right, b"x", b"") && key.matches(&right, b"", b"x"));
        for at in 0..right.len() {
            let mut wrong = right;
            wrong[at] ^= 1;
            assert!(!key.matches(&wrong, b"x", b""));
            assert!(!key.matches(&right[..at], b"x", b""));
        }
        assert!(!key.matches(&[&right[..], b"="].concat(), b"x", b""));
    }

    #[test]
    fn fields_are_covered_in_the_order_of_their_names_whatever_came_before() {
        let mut claim = Claim::default();
        for (header, content) in [
            (
                r#"{"code":11,"extFields":{"b":"2","AccessKey":"k","a":"1","Signature":"s","i":"\u0001x"},"flag":0}"#,
                "k12\u{1}x",
            ),
            (r#"{"code":11,"extFields":{"AccessKey":"k","a":"1","b":"2","i":"x","Signature":"s"},"flag":0}"#, "k12x"),
            (r#"{"code":11,"extFields":{"b":"2","AccessKey":"k","a":"1","Signature":"s"},"flag":0}"#, "k12"),
        ] {
            for _ in 0..2 {
                claim.read(&ext_fields(header.as_bytes()).unwrap()).unwrap();
                assert_eq!((claim.content.as_slice(), claim.signature.as_slice()), (content.as_bytes(), &b"s"[..]));
                let properties = &claim.content[claim.properties.clone()];
                assert!(content.as_bytes().ends_with(properties) && properties.is_empty() != header.contains("\"i\""));
            }
        }
        for odd in [
            r#"{"extFields":{"AccessKey":"k","Signature":"s","a":"1","a":"2"}}"#,
            r#"{"extFields":{"AccessKey":"k","Signature":"s","_UNIQUE_KEY_QUERY":"true"}}"#,
            r#"{"extFields":{"AccessKey":"k"}}"#,
            r#"{"extFields":{"Signature":"s"}}"#,
        ] {
            assert!(claim.read(&ext_fields(odd.as_bytes()).unwrap()).is_none(), "{odd}");
        }
        for odd in [r#"{"extFields":{}}"#, r#"{"flag":0}"#, r#"{"extFields":{"a":"1"},"extFields":{"a":"1"}}"#, "{", ""]
        {
            assert!(ext_fields(odd.as_bytes()).is_none(), "{odd}");
        }
    }
}
