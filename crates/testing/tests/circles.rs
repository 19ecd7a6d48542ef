//! Files of a crate don't depend on each other in circles.
//!
//! ```text
//! lib.rs, main.rs ─▶ modules, without cfg(test) ─▶ names written ─▶ defining files ─▶ circles
//! ```
//!
//! A file depends on another one of its crate if it writes a name that the other one defines. The
//! name may be in a `use`, or a path in code, in a macro's arguments or in an attribute. It counts
//! for the file that defines it, not for a file that re-exports it. Consequences:
//!
//! - A `mod.rs` or `lib.rs` that only declares and re-exports its children (`mod x; pub use x::Y;`)
//!   does not depend on them, and nothing depends on it.
//! - A parent and a child that each use a name of the other make a circle.
//! - A `mod x;`, a path that names a whole module, a method's call and a field's access are no
//!   dependence. An `impl` names its type, and so depends on the file of the type.
//!
//! Modules inside a file belong to the file.
#![expect(clippy::unwrap_used, reason = "a test's own functions fail with it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, UseTree};

/// From file to file, the names that tie them.
type Ties = BTreeMap<(String, String), BTreeSet<String>>;

/// A name with what leads to it: `["crate", "units", "Bytes"]`.
type Written = Vec<String>;

/// How often an import may lead to another one: more is a circle of imports.
const IMPORTS_DEEP: usize = 16;

#[test]
fn no_files_depend_on_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut ties = Ties::new();
    for folder in ["crates", "benches"] {
        for package in fs::read_dir(root.join(folder)).unwrap() {
            ties.extend(ties_of(&root, &package.unwrap().path().join("src")));
        }
    }
    assert!(ties.len() > 1_000, "only {} ties found", ties.len());
    let problems = problems(&ties);
    assert!(problems.is_empty(), "{problems}");
}

/// ARCHITECTURE.md tells the order of these folders.
#[test]
fn a_folder_of_knobs_uses_only_those_before_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = |file: &str| {
        let (folder, _) = file.strip_prefix("crates/knobs/src/")?.split_once('/')?;
        Some(folder.to_owned())
    };
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in ties_of(&root, &root.join("crates/knobs/src")).into_keys() {
        if let Some((from, to)) = folder(&from).zip(folder(&to)).filter(|(from, to)| from != to) {
            used.entry(from).or_default().insert(to);
        }
    }
    let expected = [
        ("apply", vec!["catalogue", "journal", "plan"]),
        ("journal", vec!["catalogue", "plan"]),
        ("persist", vec!["catalogue", "journal", "plan"]),
        ("plan", vec!["catalogue"]),
    ];
    let used: Vec<(&str, Vec<&str>)> = used
        .iter()
        .map(|(from, to)| (from.as_str(), to.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(used, expected);
}

#[test]
fn what_counts_is_a_name_where_it_is_defined() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    let circle = |lib: &str, a: &str, b: &str| {
        fs::create_dir_all(src.join("b")).unwrap();
        for (name, text) in [("lib.rs", lib), ("a.rs", a), ("b/mod.rs", b), ("b/c.rs", "")] {
            fs::write(src.join(name), text).unwrap();
        }
        problems(&ties_of(dir.path(), &src))
    };
    let lib = "mod a;\nmod b;\npub use a::A;\npub use b::{B, make};\n";
    let b = "mod c;\nuse crate::A;\npub struct B(A);\n";
    let tied = "circle of 2 files:\n  src/a.rs -> src/b/mod.rs: B\n  src/b/mod.rs -> src/a.rs: A\n";
    for a in [
        "pub struct A;",
        "pub struct A;\n#[cfg(test)]\nuse super::b::{B};\nfn f() {}",
        "pub struct A {\n    /// Doc.\n    #[cfg(test)]\n    b: crate::B,\n}",
        "pub(in crate::b) struct A;\n/// As [`crate::B`].\npub fn f(b: A) { b.B() }",
        "pub struct A;\n#[cfg(test)]\nmod tests { use crate::B; }",
    ] {
        assert_eq!(circle(lib, a, b), "", "{a}");
    }
    for a in [
        "use super::b::B;\npub struct A;",
        "pub struct A;\nfn f() { use crate::{b}; b::B::new() }",
        "pub struct A;\nfn f() { vec![super::B::new()] }",
        "pub struct A;\n#[value(crate::B::new())]\nfn f() {}",
        "pub struct A;\nmod inner { fn f() -> Vec<super::super::B> {} }",
    ] {
        assert_eq!(circle(lib, a, b), tied, "{a}");
    }
    // The root's own code uses what it re-exports, and is used.
    let own = format!("{lib}const MAX: A = A;\n");
    assert_eq!(circle(&own, "pub struct A;", b), "");
    let problems = circle(&own, "use crate::MAX;\npub struct A;", b);
    assert!(problems.contains("src/lib.rs -> src/a.rs: A\n"), "{problems}");
}

/// The circles of these ties; none if it is empty.
fn problems(ties: &Ties) -> String {
    let mut found = String::new();
    let reached = reached(ties);
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(to));
    let mut done = BTreeSet::new();
    for file in reached.keys().filter(|file| reaches(file, file)) {
        let is_mutual = |other: &&str| reaches(file, other) && reaches(other, file);
        let circle: Vec<&str> = reached.keys().copied().filter(is_mutual).collect();
        if !done.insert(circle[0]) {
            continue;
        }
        found += &format!("circle of {} files:\n", circle.len());
        for ((from, to), names) in ties {
            if circle.contains(&from.as_str()) && circle.contains(&to.as_str()) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                found += &format!("  {from} -> {to}: {}\n", names.join(", "));
            }
        }
    }
    found
}

/// For each file the files that it depends on, and those that they depend on.
fn reached(ties: &Ties) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in ties.keys() {
        next.entry(from).or_default().push(to);
    }
    let mut all = BTreeMap::new();
    for &file in next.keys() {
        let (mut reached, mut ahead) = (BTreeSet::new(), vec![file]);
        while let Some(file) = ahead.pop() {
            let unseen = next.get(file).into_iter().flatten().filter(|to| reached.insert(**to));
            ahead.extend(unseen);
        }
        all.insert(file, reached);
    }
    all
}

/// The ties of a package's files, named from `root`.
fn ties_of(root: &Path, src: &Path) -> Ties {
    let mut ties = Ties::new();
    for name in ["lib.rs", "main.rs"] {
        let mut modules = Modules::default();
        let file = src.join(name);
        if file.exists() {
            modules.add_file(&file, src, 0);
        }
        for (from, module) in modules.0.iter().enumerate() {
            for written in &module.written {
                let Some((to, name)) = modules.definition(from, written, 0) else { continue };
                let of = |module: usize| {
                    let file = modules.0[module].file.strip_prefix(root).unwrap();
                    file.to_str().unwrap().to_owned()
                };
                if of(from) != of(to) {
                    ties.entry((of(from), of(to))).or_default().insert(name);
                }
            }
        }
    }
    ties
}

/// A crate's modules. The first is the root, and its own parent.
#[derive(Default)]
struct Modules(Vec<Module>);

#[derive(Default)]
struct Module {
    file: PathBuf,
    parent: usize,
    children: BTreeMap<String, usize>,
    /// Names that a `use` brings in.
    imports: BTreeMap<String, Written>,
    written: BTreeSet<Written>,
}

impl Modules {
    /// Adds the module of a file, whose children's files are in a directory, and all below it.
    fn add_file(&mut self, file: &Path, directory: &Path, parent: usize) -> usize {
        let tokens: TokenStream = fs::read_to_string(file).unwrap().parse().unwrap();
        let parsed: syn::File = syn::parse2(without_tests(tokens)).unwrap();
        self.add(file, directory, parent, &parsed.items)
    }

    fn add(&mut self, file: &Path, directory: &Path, parent: usize, items: &[Item]) -> usize {
        let this = self.0.len();
        self.0.push(Module { file: file.to_owned(), parent, ..Module::default() });
        for item in items {
            let Item::Mod(child) = item else {
                self.0[this].visit_item(item);
                continue;
            };
            let name = child.ident.to_string();
            let below = directory.join(&name);
            let added = match &child.content {
                Some((_, items)) => self.add(file, &below, this, items),
                None => {
                    let files = [below.with_extension("rs"), below.join("mod.rs")];
                    let file = files.iter().find(|file| file.exists());
                    self.add_file(file.unwrap_or(&files[0]), &below, this)
                }
            };
            self.0[this].children.insert(name, added);
        }
        this
    }

    /// The module that defines a path written in module `from`, and the name there. `None` for a
    /// whole module, and for names of other crates or of the module itself.
    fn definition(&self, from: usize, written: &[String], depth: usize) -> Option<(usize, String)> {
        let (first, rest) = written.split_first()?;
        match first.as_str() {
            "crate" => self.below(0, rest, depth),
            "self" => self.below(from, rest, depth),
            "super" => {
                let parent = self.0[from].parent;
                // `super::super` goes on from there.
                match rest.first().is_some_and(|next| next == "super") {
                    true => self.definition(parent, rest, depth),
                    false => self.below(parent, rest, depth),
                }
            }
            name => {
                let module = &self.0[from];
                let is_here =
                    module.children.contains_key(name) || module.imports.contains_key(name);
                is_here.then(|| self.below(from, written, depth))?
            }
        }
    }

    /// The same, of names that begin in a module.
    fn below(&self, module: usize, names: &[String], depth: usize) -> Option<(usize, String)> {
        let (first, rest) = names.split_first()?;
        let child = self.0[module].children.get(first);
        let import = self.0[module].imports.get(first).filter(|_| depth < IMPORTS_DEEP);
        match (child, import) {
            (Some(child), None) => self.below(*child, rest, depth),
            // A module and a function of the same name.
            (Some(child), Some(_)) if !rest.is_empty() => self.below(*child, rest, depth),
            (_, Some(import)) => self.definition(module, &[import, rest].concat(), depth + 1),
            (None, None) => Some((module, first.clone())),
        }
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, before: &[String], is_public: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        let (name, written) = match tree {
            UseTree::Path(path) => return self.import(&path.tree, &with(&path.ident), is_public),
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import(tree, before, is_public));
            }
            UseTree::Name(name) if name.ident == "self" => {
                (before.last().unwrap().clone(), before.to_vec())
            }
            UseTree::Name(name) => (name.ident.to_string(), with(&name.ident)),
            UseTree::Rename(name) => (name.rename.to_string(), with(&name.ident)),
            UseTree::Glob(_) => (String::new(), [before, &["*".to_owned()]].concat()),
        };
        // Of a child's name that is re-exported, only its use in own code counts.
        let is_childs = !matches!(written[0].as_str(), "crate" | "super");
        if !(is_public && is_childs) {
            self.written.insert(written.clone());
        }
        self.imports.insert(name, written);
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_public = !matches!(item.vis, syn::Visibility::Inherited);
        self.import(&item.tree, &[], is_public);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.written.insert(path.segments.iter().map(|part| part.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    /// The arguments of a macro or of an attribute.
    fn visit_token_stream(&mut self, tokens: &'ast TokenStream) {
        self.written.extend(paths(tokens.clone()));
    }
}

/// The paths among tokens. A name behind a dot is a field or a method.
fn paths(tokens: TokenStream) -> Vec<Written> {
    let mut found: Vec<Written> = Vec::new();
    let mut before = String::new();
    for token in tokens {
        match &token {
            TokenTree::Group(group) => found.extend(paths(group.stream())),
            TokenTree::Ident(name) if before.ends_with("a::") => {
                found.last_mut().unwrap().push(name.to_string());
            }
            TokenTree::Ident(name) if !before.ends_with('.') || before.ends_with("..") => {
                found.push(vec![name.to_string()]);
            }
            _ => {}
        }
        match token {
            TokenTree::Ident(_) => before.push('a'),
            TokenTree::Punct(sign) => before.push(sign.as_char()),
            _ => before.push(' '),
        }
    }
    found
}

/// Tokens without what is for tests alone.
fn without_tests(tokens: TokenStream) -> TokenStream {
    let mut kept: Vec<TokenTree> = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) if is_for_tests(&group) => {
                // The attribute's `#`, and the attributes before it.
                kept.pop();
                while let [.., TokenTree::Punct(sign), TokenTree::Group(_)] = &kept[..] {
                    if sign.as_char() != '#' {
                        break;
                    }
                    kept.truncate(kept.len() - 2);
                }
                skip_item(&mut tokens);
            }
            TokenTree::Group(group) => {
                let inside = without_tests(group.stream());
                kept.push(proc_macro2::Group::new(group.delimiter(), inside).into());
            }
            token => kept.push(token),
        }
    }
    kept.into_iter().collect()
}

fn is_for_tests(group: &proc_macro2::Group) -> bool {
    group.delimiter() == Delimiter::Bracket
        && group.stream().to_string().replace(' ', "") == "cfg(test)"
}

/// Up to its last token: its braces, a semicolon, or the comma of a field.
fn skip_item(tokens: &mut std::iter::Peekable<impl Iterator<Item = TokenTree>>) {
    let mut angles = 0;
    let mut before = ' ';
    while let Some(token) = tokens.next() {
        let sign = match &token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                tokens.next_if(|next| next.to_string() == ";");
                return;
            }
            TokenTree::Punct(sign) => sign.as_char(),
            _ => ' ',
        };
        match sign {
            ';' => return,
            ',' if angles == 0 => return,
            '<' => angles += 1,
            '>' if before != '-' => angles -= 1,
            _ => {}
        }
        before = sign;
    }
}
