//! Links between documents lead somewhere, on a forge and in the book (`make book`).
//!
//! ```text
//! every .md file ─▶ pulldown-cmark ─▶ links, headings ─▶ file there? anchor there? chapter there?
//! ```
#![expect(clippy::unwrap_used, reason = "a test's own functions fail with it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// What a document links to, and what others can link to.
#[derive(Debug, Default)]
struct Document {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Markdown below a folder, by its path from the repository's root. Folders of cargo and git are
/// left out.
fn documents(root: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, Document>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = folder.join(&name);
        if entry.file_type().unwrap().is_dir() {
            if name != "target" && !name.starts_with('.') {
                documents(root, &path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(entry.path()).unwrap();
            found.insert(path, read_document(&text));
        }
    }
}

fn read_document(text: &str) -> Document {
    let mut document = Document::default();
    let mut heading = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url: url, .. } | Tag::Image { dest_url: url, .. }) => {
                document.links.push(url.into_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap());
                let mut anchor = slug.clone();
                for number in 1.. {
                    if document.anchors.insert(anchor) {
                        break;
                    }
                    anchor = format!("{slug}-{number}");
                }
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                let ids = html.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next());
                document.anchors.extend(ids.map(str::to_owned));
            }
            _ => {}
        }
    }
    document
}

/// The anchor of a heading, alike on forges and in mdbook.
fn slug(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

/// A link's path from the repository's root; `None` if it leads out of the repository.
fn target(document: &Path, link: &str) -> Option<PathBuf> {
    if link.is_empty() {
        return Some(document.to_owned());
    }
    let mut path = document.parent().unwrap().to_owned();
    for component in Path::new(link).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

/// One line for each link that leads nowhere.
fn lost(root: &Path, documents: &BTreeMap<PathBuf, Document>) -> Vec<String> {
    let mut lost = Vec::new();
    for (path, document) in documents {
        for link in &document.links {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let there = target(path, file).filter(|target| root.join(target).exists());
            let has_anchor = there.as_ref().is_some_and(|target| {
                let of_target = documents.get(target);
                anchor.is_empty() || of_target.is_some_and(|found| found.anchors.contains(anchor))
            });
            if !has_anchor {
                lost.push(format!("{}: '{link}' leads nowhere", path.display()));
            }
        }
    }
    lost
}

#[test]
fn links_lead_to_files_and_anchors_that_exist() {
    let root = root();
    let mut all = BTreeMap::new();
    documents(&root, Path::new(""), &mut all);
    assert!(all.values().map(|document| document.links.len()).sum::<usize>() > 300, "{all:?}");
    let lost = lost(&root, &all);
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let of = |text: &str| {
        let page = (PathBuf::from("docs/guard.md"), read_document(text));
        lost(&root(), &BTreeMap::from([page]))
    };
    let good = "# It's `one`, two\n[a](#its-one-two) [b](../README.md) [c](https://host/x)\n# A\n\
        # A\n[d](guard.md#a-1) <a id=\"e\"></a> [e](#e)";
    assert_eq!(of(good), Vec::<String>::new());
    for bad in ["#two", "../../README.md", "../README", "/README.md", "guard.md#a"] {
        let text = format!("# One\n\n| a |\n|---|\n| [a]({bad}) |");
        assert_eq!(of(&text), [format!("docs/guard.md: '{bad}' leads nowhere")]);
    }
}

#[test]
fn the_book_has_every_page_of_docs_once_and_every_page_that_it_links_to() {
    let mut all = BTreeMap::new();
    documents(&root(), Path::new(""), &mut all);
    let summary = Path::new("docs/SUMMARY.md");
    let chapters: Vec<PathBuf> =
        all[summary].links.iter().map(|link| target(summary, link).unwrap()).collect();
    let once: BTreeSet<&PathBuf> = chapters.iter().collect();
    assert_eq!(once.len(), chapters.len(), "a page is listed twice");
    for page in all.keys().filter(|page| page.starts_with("docs") && *page != summary) {
        assert!(once.contains(page), "docs/SUMMARY.md does not list {}", page.display());
    }
    for chapter in &chapters {
        for link in all[chapter].links.iter().filter(|link| !link.contains("://")) {
            let target = target(chapter, link.split('#').next().unwrap()).unwrap();
            let is_page = all.contains_key(&target) && target != summary;
            assert!(
                !is_page || once.contains(&target),
                "{} links to {}, which docs/SUMMARY.md does not list",
                chapter.display(),
                target.display()
            );
        }
    }
}
