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

void at_html_begin(at_text *page, const char *title)
{
    at_text_add(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                      "<meta name=\"viewport\" content=\"width=device-width\"/>\n");
    at_html_element(page, "title", title);
    at_text_add(
        page,
        "<style>\nbody{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;"
        "color:#1a1a1a;background:#fff}\nh1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\n"
        "table{border-collapse:collapse;font-size:.9rem}\n"
        "td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}td{overflow-wrap:anywhere}\n"
        "td:nth-child(2):not(:last-child){white-space:nowrap}\n"
        "th{border-bottom:1px solid #999}.facts th{border:0}td.n{text-align:right;font-variant-numeric:tabular-nums}\n"
        "svg{max-width:100%%;height:auto}svg text{font:12px system-ui,sans-serif;fill:#333}\n"
        "code{font-size:.85rem}.rows td+td{overflow-wrap:normal}\n"
        "pre{font-size:.8rem;white-space:pre-wrap;overflow-wrap:anywhere}\n</style>\n</head>\n<body>\n");
    at_html_element(page, "h1", title);
}

void at_html_end(at_text *page)
{
    at_text_add(page, "</body>\n</html>\n");
}
