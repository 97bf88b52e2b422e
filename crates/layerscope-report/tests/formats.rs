//! Every format to the letter, with text that would like to be more than text.

use std::io::{self, Write};

use layerscope_error::ErrorKind;
use layerscope_report::export::{self, Format};
use layerscope_report::{Column, Error, Table};

fn texts(values: &[&str]) -> Column {
    Column::text(values.iter().map(|&text| Some(text)))
}

fn printed(table: &Table, format: &str) -> String {
    let mut bytes = Vec::new();
    export::write(table, format.parse().unwrap(), &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Each text alone in a column `t`, as the format's lines.
fn each(values: &[&str], format: &str) -> Vec<String> {
    let lines = |text: &str| printed(&Table::new([("t", texts(&[text]))]).unwrap(), format);
    values.iter().map(|text| lines(text)).collect()
}

fn ordinary() -> Table {
    Table::new([
        ("layer", Column::Integer(vec![Some(0), Some(-12), None])),
        ("mean_norm", Column::Real(vec![Some(0.1 + 0.2), Some(-1e-9), None])),
        ("group", Column::text(vec![Some("字 é"), Some(""), None])),
        ("states", Column::Integer(vec![Some(i64::MAX), Some(i64::MIN), Some(7)])),
    ])
    .unwrap()
}

#[test]
fn markdown() {
    let expected = "\
| layer |  mean_norm | group |               states |
| ----: | ---------: | ----- | -------------------: |
|     0 |    0.30000 | 字 é   |  9223372036854775807 |
|   -12 | -1.0000e-9 |       | -9223372036854775808 |
|       |            |       |                    7 |
";
    assert_eq!(printed(&ordinary(), "md"), expected);
}

#[test]
fn csv() {
    let expected = "\
layer,mean_norm,group,states
0,0.30000000000000004,字 é,9223372036854775807
-12,-1e-9,\"\",-9223372036854775808
,,,7
";
    assert_eq!(printed(&ordinary(), "csv"), expected);
}

#[test]
fn json_and_json_lines() {
    let rows = [
        r#"{"layer":0,"mean_norm":0.30000000000000004,"group":"字 é","states":9223372036854775807}"#,
        r#"{"layer":-12,"mean_norm":-1e-9,"group":"","states":-9223372036854775808}"#,
        r#"{"layer":null,"mean_norm":null,"group":null,"states":7}"#,
    ];
    assert_eq!(printed(&ordinary(), "json"), format!("[\n{}\n]\n", rows.join(",\n")));
    assert_eq!(printed(&ordinary(), "jsonl"), rows.join("\n") + "\n");
}

#[test]
fn latex() {
    let expected = r"% \usepackage{booktabs}
\begin{tabular}{rrlr}
\toprule
layer & mean\_norm & group & states \\
\midrule
0 & 0.30000 & 字 é & 9223372036854775807 \\
$-12$ & $-1.0000 \times 10^{-9}$ &  & $-9223372036854775808$ \\
 &  &  & 7 \\
\bottomrule
\end{tabular}
";
    assert_eq!(printed(&ordinary(), "latex"), expected);
}

#[test]
fn a_table_without_rows_is_still_one() {
    let table = Table::new([("layer", Column::Integer(vec![])), ("t", Column::Text(vec![]))]).unwrap();
    assert_eq!(printed(&table, "md"), "| layer | t   |\n| ----: | --- |\n");
    assert_eq!(printed(&table, "csv"), "layer,t\n");
    assert_eq!(printed(&table, "json"), "[]\n");
    assert_eq!(printed(&table, "jsonl"), "");
    assert!(printed(&table, "latex").ends_with("layer & t \\\\\n\\midrule\n\\bottomrule\n\\end{tabular}\n"));
}

#[test]
fn spreadsheets_find_no_formula_in_csv() {
    let hostile = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "=HYPERLINK(\"x\",\"y\")", "=1", "a=1", "'x"];
    let safe = ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "\"'\tx\"", "\"'\rx\"", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\"", "'=1", "a=1", "'x"];
    assert_eq!(each(&hostile, "csv"), safe.map(|field| format!("t\n{field}\n")));
    let header = Table::new([("=1+1", Column::Integer(vec![Some(-1)])), ("q", Column::Real(vec![Some(-0.5)]))]).unwrap();
    assert_eq!(printed(&header, "csv"), "'=1+1,q\n-1,-0.5\n");
}

#[test]
fn csv_is_quoted() {
    let hostile = ["a,b", "say \"a\"", "a\nb", "a\r\nb", " the", "the ", "a;b", "\u{1b}[2J\0", "x\u{202e}y", "\\u{1b}"];
    let safe = [
        "\"a,b\"",
        "\"say \"\"a\"\"\"",
        "\"a\nb\"",
        "\"a\r\nb\"",
        "\" the\"",
        "\"the \"",
        "\"a;b\"",
        "\\u{1b}[2J\\u{0}",
        "x\\u{202e}y",
        "\\u{1b}",
    ];
    assert_eq!(each(&hostile, "csv"), safe.map(|field| format!("t\n{field}\n")));
}

#[test]
fn markdown_cells_stay_cells() {
    let hostile = ["a|b", "a\nb\r", "\\|", "</script><b>&amp;", "`x`", "**x** [a](b)", "_x_ a_b", "~~x~~ $x$", "\u{1b}]8;;\u{7}\u{2066}"];
    let safe = [
        r"a\|b",
        r"a\\u{a}b\\u{d}",
        r"\\\|",
        "&lt;/script&gt;&lt;b&gt;&amp;amp;",
        r"\`x\`",
        r"\*\*x\*\* \[a\](b)",
        r"\_x\_ a_b",
        r"\~\~x\~\~ \$x\$",
        r"\\u{1b}\]8;;\\u{7}\\u{2066}",
    ];
    for (lines, cell) in each(&hostile, "md").iter().zip(safe) {
        assert_eq!(lines.lines().skip(2).collect::<Vec<_>>(), [format!("| {cell} |")]);
    }
}

#[test]
fn latex_runs_nothing() {
    let hostile = [r"\input{/etc/passwd}", "$a_b^c$ 100% & # ~", "[CLS]", "*x", "a--b", "<a|b>", "`x' \"y\"", "\n\n\u{202e}"];
    let safe = [
        r"\textbackslash{}input\{/etc/passwd\}",
        r"\$a\_b\textasciicircum{}c\$ 100\% \& \# \textasciitilde{}",
        "{[}CLS{]}",
        "{*}x",
        "a-{}-b",
        r"\textless{}a\textbar{}b\textgreater{}",
        r"\textasciigrave{}x\textquotesingle{} {\char34}y{\char34}",
        r"\textbackslash{}u\{a\}\textbackslash{}u\{a\}\textbackslash{}u\{202e\}",
    ];
    for (lines, cell) in each(&hostile, "latex").iter().zip(safe) {
        assert_eq!(lines.lines().nth(5), Some(format!("{cell} \\\\").as_str()));
        assert_eq!(lines.lines().count(), 8);
    }
}

#[test]
fn json_keeps_every_character() {
    let hostile =
        ["</script><!--", "\"\\", "\u{0}\u{1b}\u{7f}\n\r\t\u{85}", "\u{202e}\u{2066}\u{2028}\u{feff}", "\u{e0001}", "=1+1", "👩\u{200d}🔬"];
    let literals = [
        r#""\u003c/script>\u003c!--""#,
        r#""\"\\""#,
        r#""\u0000\u001b\u007f\n\r\t\u0085""#,
        r#""\u202e\u2066\u2028\ufeff""#,
        r#""\udb40\udc01""#,
        r#""=1+1""#,
        "\"👩\u{200d}🔬\"",
    ];
    assert_eq!(each(&hostile, "jsonl"), literals.map(|literal| format!("{{\"t\":{literal}}}\n")));
    let name = "\"\n</script>\u{202e}";
    let table = Table::new([(name, texts(&hostile))]).unwrap();
    let read: serde_json::Value = serde_json::from_str(&printed(&table, "json")).unwrap();
    let read: Vec<&str> = read.as_array().unwrap().iter().map(|row| row[name].as_str().unwrap()).collect();
    assert_eq!(read, hostile);
}

#[test]
fn only_people_get_very_long_cells_shortened() {
    let long = "x".repeat(10_000);
    let table = Table::new([("t", texts(&[&long]))]).unwrap();
    for format in ["csv", "json", "jsonl"] {
        assert!(printed(&table, format).contains(&long));
    }
    assert!(printed(&table, "md").ends_with(&format!("| {}… |\n", "x".repeat(500))));
    assert!(printed(&table, "latex").contains(&format!("\n{}\\ldots{{}} \\\\\n", "x".repeat(100))));
    let formula = "a".repeat(480);
    let table = Table::new([("formula", texts(&["short", &formula])), ("n", Column::Integer(vec![Some(1), Some(2)]))]).unwrap();
    let lines: Vec<usize> = printed(&table, "md").lines().map(str::len).collect();
    assert_eq!(lines, [210, 210, 210, 490], "whole, and only its own row is wide");
}

#[test]
fn reals_are_read_back_exactly() {
    let numbers = vec![0.1, 1.0 / 3.0, 5e-324, f64::MAX, -1e16, 1e15, 123456.789e-20, -0.0];
    let table = Table::new([("q", Column::Real(numbers.iter().copied().map(Some).collect()))]).unwrap();
    let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
    let from_csv: Vec<f64> = printed(&table, "csv").lines().skip(1).map(|line| line.parse().unwrap()).collect();
    assert_eq!(bits(&from_csv), bits(&numbers));
    let lines = printed(&table, "jsonl");
    let literals = lines.lines().map(|line| line.strip_prefix("{\"q\":").unwrap().strip_suffix('}').unwrap());
    let from_json: Vec<f64> = literals.map(|literal| literal.parse().unwrap()).collect();
    assert_eq!(bits(&from_json), bits(&numbers));
    assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["q"].is_f64()));
}

#[test]
fn formats_have_names() {
    for format in Format::ALL {
        assert_eq!(format.name().parse::<Format>().unwrap(), format);
    }
    let error = "xlsx\u{1b}".parse::<Format>().unwrap_err();
    assert_eq!(error.to_string(), "--format `xlsx\\u{1b}` is not understood; give md, csv, json, jsonl or latex");
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn a_closed_pipe_is_told() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let is_told = |error: Error| matches!(&error, Error::Write(source) if source.kind() == io::ErrorKind::BrokenPipe);
    for format in Format::ALL {
        assert!(is_told(export::write(&ordinary(), format, &mut Closed).unwrap_err()));
    }
    assert!(is_told(export::parquet::write(&ordinary(), &mut Closed).unwrap_err()));
}
