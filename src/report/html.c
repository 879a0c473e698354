#include "report/html.h"

void at_html_words(at_text *page, const char *words)
{
    for (; *words != '\0'; ++words) {
        switch (*words) {
        case '&':
            at_text_add(page, "&amp;");
            break;
        case '<':
            at_text_add(page, "&lt;");
            break;
        case '>':
            at_text_add(page, "&gt;");
            break;
        case '"':
            at_text_add(page, "&quot;");
            break;
        default:
            if ((unsigned char)*words >= ' ' || *words == '\n') {
                at_text_add(page, "%c", *words);
            }
        }
    }
}

void at_html_element(at_text *page, const char *tag, const char *words)
{
    at_text_add(page, "<%s>", tag);
    at_html_words(page, words);
    at_text_add(page, "</%s>\n", tag);
}

void at_html_fold(at_text *page, const char *summary)
{
    at_text_add(page, "<details>\n");
    at_html_element(page, "summary", summary);
}

void at_html_unfold(at_text *page)
{
    at_text_add(page, "</details>\n");
}

void at_html_begin(at_text *page, const char *title)
{
    at_text_add(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                      "<meta name=\"viewport\" content=\"width=device-width\"/>\n");
    at_html_element(page, "title", title);
    at_text_add(
        page,
        "<style>\n:root{color-scheme:light dark;--ink:#1a1a1a;--paper:#fff;--faint:#ddd;--line:#333}\n"
        "@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#15171a;--faint:#3a3d42;--line:#b8bcc2}}\n"
        "body{font:15px/1.45 system-ui,sans-serif;max-width:82rem;margin:2rem auto;padding:0 1rem;"
        "color:var(--ink);background:var(--paper)}\nh1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\n"
        "table{border-collapse:collapse;font-size:.9rem}\n"
        "td,th{padding:.2rem .6rem .2rem 0;text-align:left;vertical-align:top}td{overflow-wrap:anywhere}\n"
        "td:nth-child(2):not(:last-child){white-space:nowrap}\n"
        "th{border-bottom:1px solid #999}.facts th{border:0}td.n{text-align:right;font-variant-numeric:tabular-nums;"
        "white-space:nowrap}\n"
        ".wide{overflow:auto;max-height:80vh}.sort th{cursor:pointer;position:sticky;top:0;background:var(--paper)}\n"
        ".sort{font-size:.83rem}.sort td,.sort th{padding-right:.5rem}\n"
        ".sort tbody tr:hover{background:var(--faint)}.sort td{white-space:nowrap;vertical-align:middle}\n"
        ".sort td:first-child{white-space:normal}\n"
        ".multiples{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:.5rem}\n"
        ".legend span{margin-right:1rem;white-space:nowrap}summary{cursor:pointer;font-weight:600;margin:.6rem 0}\n"
        "svg{max-width:100%%;height:auto}svg.bar{max-width:none}\n"
        "svg text{font:12px system-ui,sans-serif;fill:var(--ink)}\n"
        "svg line[stroke=\"#333\"],svg line[stroke=\"#000\"]{stroke:var(--line)}"
        "svg line[stroke=\"#ddd\"]{stroke:var(--faint)}svg [fill=\"#fff\"]{fill:var(--paper)}\n"
        "svg [fill=\"#000000\"]{fill:var(--ink)}svg [stroke=\"#000000\"]{stroke:var(--ink)}\n"
        ".legend b[style*=\"#000000\"]{color:var(--ink)!important}\n"
        "code{font-size:.85rem}.rows td+td{overflow-wrap:normal}\n"
        "pre{font-size:.8rem;white-space:pre-wrap;overflow-wrap:anywhere}\n</style>\n</head>\n<body>\n");
    at_html_element(page, "h1", title);
}

void at_html_end(at_text *page)
{
    at_text_add(page, "</body>\n</html>\n");
}
