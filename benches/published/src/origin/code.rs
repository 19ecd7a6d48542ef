//! What of a Rust source decides what a program does: its items, without what only says where they
//! stand and who may use them.
//!
//! ```text
//! source ─▶ items, modules opened, impls taken apart ─▶ tokens without docs, `pub` and paths
//! ```
//!
//! Another function of the same name, in another module, is not told apart.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, Lit};

/// How the tokens of a test begin.
const TEST: &str = "# [cfg (test )]";
/// Types that are written like modules.
const TYPES: [&str; 17] = [
    "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "str", "u8", "u16",
    "u32", "u64", "u128", "usize",
];

/// The items of a source, tests, imports and declarations of modules left out.
///
/// # Errors
/// A source that is no Rust.
pub(super) fn items(source: &str) -> syn::Result<Vec<String>> {
    let mut found = Vec::new();
    take(syn::parse_file(source)?.items, &mut found);
    Ok(found)
}

fn take(items: Vec<Item>, found: &mut Vec<String>) {
    for item in items {
        match item {
            Item::Use(_) => {}
            Item::Mod(module) if is_test(&module.attrs) => {}
            Item::Mod(module) => {
                take(module.content.map_or_else(Vec::new, |(_, items)| items), found);
            }
            // Methods may move to another `impl` of their type.
            Item::Impl(mut all) if all.trait_.is_none() && !is_test(&all.attrs) => {
                for method in std::mem::take(&mut all.items) {
                    if !matches!(&method, ImplItem::Fn(method) if is_test(&method.attrs)) {
                        all.items = vec![method];
                        found.push(plain(all.to_token_stream()));
                    }
                }
            }
            other => {
                found.extend(Some(plain(other.to_token_stream())).filter(|t| !t.starts_with(TEST)));
            }
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| plain(attribute.to_token_stream()) == TEST)
}

/// Tokens without `pub`, docs and the modules of a path.
fn plain(tokens: TokenStream) -> String {
    let mut text = String::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                text.push_str(open);
                text.push_str(&plain(group.stream()));
                text.push_str(close);
            }
            TokenTree::Ident(word) if word == "pub" => {
                tokens.next_if(is_scope);
            }
            TokenTree::Punct(hash) if hash.as_char() == '#' && tokens.next_if(is_doc).is_some() => {
            }
            TokenTree::Ident(word) if is_module(&word.to_string()) && is_path(&mut tokens) => {
                tokens.by_ref().take(2).for_each(drop);
            }
            // How a string is broken into lines is layout.
            TokenTree::Literal(literal) => text.push_str(&match Lit::new(literal) {
                Lit::Str(string) => format!("{:?}", string.value()),
                other => other.to_token_stream().to_string(),
            }),
            // So is a comma before a closing bracket.
            TokenTree::Punct(comma) if comma.as_char() == ',' && tokens.peek().is_none() => {}
            other => {
                text.push_str(&other.to_string());
                text.push(' ');
            }
        }
    }
    text
}

/// `(crate)`, `(super)`, `(in crate::sim)`.
fn is_scope(token: &TokenTree) -> bool {
    let first = match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
            group.stream().into_iter().next()
        }
        _ => None,
    };
    matches!(first, Some(TokenTree::Ident(word))
        if ["crate", "super", "self", "in"].contains(&word.to_string().as_str()))
}

/// `[doc = "…"]`.
fn is_doc(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group)
        if group.stream().into_iter().next().is_some_and(|word| word.to_string() == "doc"))
}

fn is_module(word: &str) -> bool {
    let is_lower = |c: char| c.is_lowercase() || c == '_' || c.is_ascii_digit();
    word.chars().all(is_lower) && !TYPES.contains(&word)
}

/// Whether `::` follows, and then a name: no generic argument.
fn is_path(tokens: &mut (impl Iterator<Item = TokenTree> + Clone)) -> bool {
    let mut ahead = tokens.clone();
    let colon = |token: Option<TokenTree>, spacing| {
        matches!(token, Some(TokenTree::Punct(colon))
            if colon.as_char() == ':' && colon.spacing() == spacing)
    };
    colon(ahead.next(), Spacing::Joint)
        && colon(ahead.next(), Spacing::Alone)
        && matches!(ahead.next(), Some(TokenTree::Ident(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_the_same_wherever_it_stands_and_however_it_is_laid_out() {
        let law = "impl Law { fn step(&self) -> Wait { Wait::new(\"a b\") } }";
        let elsewhere = r#"
            use crate::wait::Wait;
            /// Doc.
            impl Law {
                /// Doc.
                pub(crate) fn step(&self) -> Wait {
                    super::wait::Wait::new(
                        "a \
                         b",
                    )
                }
            }
        "#;
        let same = [
            elsewhere,
            "mod law { impl Law { pub fn step(&self) -> Wait { Wait::new(\"a b\") } } }",
            "#[cfg(test)]\nimpl Law { fn test() {} }\n\
             impl Law { fn step(&self) -> Wait { Wait::new(\"a b\") } }",
        ];
        for source in same {
            assert_eq!(items(source).unwrap(), items(law).unwrap(), "{source}");
        }
        let others = [
            "impl Rule { fn step(&self) -> Wait { Wait::new(\"a b\") } }",
            "impl Law { fn step(&self) -> Wait { Rest::new(\"a b\") } }",
            "impl Law { fn step(&self) -> Wait { Wait::new(\"a  b\") } }",
            "impl Law { #[inline] fn step(&self) -> Wait { Wait::new(\"a b\") } }",
        ];
        for source in others {
            assert_ne!(items(source).unwrap(), items(law).unwrap(), "{source}");
        }
        let most = |of: &str| items(&format!("const MOST: u64 = {of}::MAX as u64;")).unwrap();
        assert_ne!(most("u32"), most("u64"));
        assert!(items("#[cfg(test)]\nconst A: u8 = 1;").unwrap().is_empty());
        assert!(items("fn step( {}").is_err());
    }
}
