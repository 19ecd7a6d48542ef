use super::*;

const PLAIN: Style = Style { color: false, width: 40 };

const PAGE: &str = "\
# FW999: a `page` of everything

A paragraph with `code of two words`, *emphasis*, a [relative link](FW001.md), a link to
[the kernel](https://kernel.org/doc), and <https://kernel.org>. vm.dirty_bytes stays.

## What to do

    floodwall apply sda.wbt_lat_usec=75000 sda.scheduler=mq-deadline

Or:

- the first item, which is longer than one line
- the second
  - one below it
1. a number

| elevator | what it does |
|---|---|
| `bfq` | gives each process its share of the disk's time |
| none | passes on |

After it.
";

#[test]
fn a_page_is_laid_out_for_a_terminal() {
    insta::assert_snapshot!(render(PAGE, PLAIN));
}

#[test]
fn headings_and_code_are_painted_on_a_colour_terminal() {
    let page = render("## What `x` does\n\nUse `a b` now.", Style { color: true, width: 80 });
    assert_eq!(
        page,
        "\u{1b}[1mWhat\u{1b}[0m \u{1b}[36mx\u{1b}[0m \u{1b}[1mdoes\u{1b}[0m\n\nUse \
         \u{1b}[36ma b\u{1b}[0m now.\n"
    );
}

#[test]
fn a_page_does_nothing_to_a_terminal() {
    assert_eq!(render("a\u{1b}[31m `b\u{7}`", PLAIN), "a\\u{1b}[31m b\\u{7}\n");
}

#[test]
fn a_command_in_a_paragraph_is_not_broken_where_it_fits() {
    let style = Style { color: false, width: 20 };
    assert_eq!(render("Run `floodwall bench`.", style), "Run floodwall bench.\n");
    assert_eq!(render("Please run `floodwall bench`.", style), "Please run\nfloodwall bench.\n");
    assert_eq!(render("`floodwall bench --rounds 9`", style), "floodwall bench\n--rounds 9\n");
}
