#!/bin/sh
# Checks every PDF in the given folders: sound (qpdf), every font embedded (pdffonts), text extractable (pdftotext).
set -eu
for folder in "$@"; do
    for pdf in "$folder"/*.pdf; do
        qpdf --check "$pdf" >/dev/null || { echo "$pdf: not a sound PDF" >&2; exit 1; }
        pdffonts "$pdf" | tail -n +3 | awk '{ if ($(NF-4) != "yes") exit 1 }' || { echo "$pdf: a font is not embedded" >&2; exit 1; }
        pdftotext "$pdf" - | grep -q '[A-Za-z]' || { echo "$pdf: no text" >&2; exit 1; }
    done
    case $(pdftotext -raw "$folder/fig4.pdf" - 2>/dev/null) in
    *layer*slope*) ;;
    *) echo "$folder/fig4.pdf: its axis labels are not found" >&2; exit 1 ;;
    esac
done
