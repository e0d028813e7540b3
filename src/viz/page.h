/* page.h: the script and the style of HTML pages, compiled in; private to src/viz. The build makes
 * the definitions from page.js and page.css. */
#ifndef ATTN_VIZ_PAGE_H
#define ATTN_VIZ_PAGE_H

#include <stddef.h>

typedef struct attn__asset {
    const unsigned char *bytes;
    size_t size;
    unsigned char sha256[32];
} attn__asset;

extern const attn__asset attn__page_js, attn__page_css;

#endif
