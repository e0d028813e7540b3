/* show.c: `attn show`: pictures of weights in files. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/arrays.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "include/attn/viz.h"

enum {
    SHOW_OUT,
    SHOW_FORMAT,
    SHOW_KIND,
    SHOW_WIDTH,
    SHOW_HEIGHT,
    SHOW_DARK,
    SHOW_MAX_BYTES,
    SHOW_TENSOR,
    SHOW_LAYER,
    SHOW_HEAD,
    SHOW_QUERIES,
    SHOW_KEYS,
    SHOW_CAUSAL,
    SHOW_TOKENS,
    SHOW_KEY_TOKENS,
    SHOW_IMAGE,
    SHOW_PATCHES,
    SHOW_TITLE,
    SHOW_NOTES,
    SHOW_SCALE,
    SHOW_COLOURS,
    SHOW_LOW,
    SHOW_HIGH,
    SHOW_ROBUST,
    SHOW_OWN,
    SHOW_REDUCE,
    SHOW_DROP_KEYS,
    SHOW_SHARE,
    SHOW_OPTIONS
};

static const cli_option show_options[SHOW_OPTIONS] = {
    [SHOW_OUT] =
        {"Output", "out", 'o', CLI_TEXT, "FILE",
         "the picture; the ending decides: .png, .svg, .html, .txt (default: the terminal)", 0, 0},
    [SHOW_FORMAT] = {NULL, "format", 0, CLI_CHOICE, "png|svg|html|24bit|256|ascii",
                     "this format, whatever the ending", 0, 0},
    [SHOW_KIND] = {NULL, "kind", 0, CLI_CHOICE, "map|grid|lines|overlay",
                   "one head as a heat map; all as thumbnails; lines between tokens; patches over "
                   "--image. Default: map for one head, else grid",
                   0, 0},
    [SHOW_WIDTH] = {NULL, "width", 0, CLI_INTEGER, "N", "pixels, or characters", 1, 16384},
    [SHOW_HEIGHT] = {NULL, "height", 0, CLI_INTEGER, "N", "pixels, or lines", 1, 16384},
    [SHOW_DARK] = {NULL, "dark", 0, CLI_FLAG, "", "light text on dark", 0, 0},
    [SHOW_MAX_BYTES] = {NULL, "max-bytes", 0, CLI_INTEGER, "N",
                        "keep less detail in .html, to stay below (default 6000000)", 100000, 1e12},
    [SHOW_TENSOR] =
        {"Input", "tensor", 0, CLI_TEXT, "NAME",
         "of a file that holds several: weights [queries, keys], [heads, queries, keys] "
         "or [layers, heads, queries, keys]",
         0, 0},
    [SHOW_LAYER] = {NULL, "layer", 0, CLI_INTEGER, "N", "only this one", 0, 1e12},
    [SHOW_HEAD] = {NULL, "head", 0, CLI_INTEGER, "N", "only this one", 0, 1e12},
    [SHOW_QUERIES] = {NULL, "queries", 0, CLI_TEXT, "A:B", "only queries A to B-1", 0, 0},
    [SHOW_KEYS] = {NULL, "keys", 0, CLI_TEXT, "A:B", "only keys A to B-1", 0, 0},
    [SHOW_CAUSAL] = {NULL, "causal", 0, CLI_FLAG, "",
                     "keys after the query are masked, not zero; the last query and the last key "
                     "stand side by side",
                     0, 0},
    [SHOW_TOKENS] = {NULL, "tokens", 0, CLI_TEXT, "FILE",
                     "a token a line, for queries and, if they are as many, for keys", 0, 0},
    [SHOW_KEY_TOKENS] = {NULL, "key-tokens", 0, CLI_TEXT, "FILE", "for keys", 0, 0},
    [SHOW_IMAGE] = {NULL, "image", 0, CLI_TEXT, "FILE", "a .png; with --patches", 0, 0},
    [SHOW_PATCHES] = {NULL, "patches", 0, CLI_TEXT, "H,W",
                      "the last H W keys of the first query shown are patches of the image", 0, 0},
    [SHOW_TITLE] = {NULL, "title", 0, CLI_TEXT, "TEXT", "over the picture (default: the file)", 0,
                    0},
    [SHOW_NOTES] = {NULL, "notes", 0, CLI_TEXT, "TEXT", "a line below it", 0, 0},
    [SHOW_SCALE] = {"Colours", "scale", 0, CLI_CHOICE, "linear|sqrt|log|percentile",
                    "from values to colours", 0, 0},
    [SHOW_COLOURS] = {NULL, "colours", 0, CLI_CHOICE, "viridis|cividis|magma|grey|diverging",
                      "of the lowest value to the highest; diverging has zero in the middle", 0, 0},
    [SHOW_LOW] = {NULL, "low", 0, CLI_NUMBER, "X", "lowest value of the colours; with --high", 0,
                  0},
    [SHOW_HIGH] = {NULL, "high", 0, CLI_NUMBER, "X", "highest value; with --low", 0, 0},
    [SHOW_ROBUST] = {NULL, "robust", 0, CLI_NUMBER, "P",
                     "percent of the cells ignored at each end for the limits", 0, 49},
    [SHOW_OWN] = {NULL, "own-limits", 0, CLI_FLAG, "", "grid: each head spans all colours", 0, 0},
    [SHOW_REDUCE] = {NULL, "reduce", 0, CLI_CHOICE, "max|mean|sum",
                     "what a pixel shows of the cells under it", 0, 0},
    [SHOW_DROP_KEYS] = {NULL, "drop-keys", 0, CLI_INTEGER, "N",
                        "hide the first N keys, divide the rest of each row by its sum", 0, 1e12},
    [SHOW_SHARE] = {NULL, "share", 0, CLI_NUMBER, "X",
                    "lines: the heaviest edges that hold this much of each row (default 0.7)", 0,
                    1},
};

/* --- Input ------------------------------------------------------------------------------------ */

/* "A:B" within 0 .. size. */
static int read_range(const cli_value *v, const char *name, int64_t size, int64_t *from,
                      int64_t *to)
{
    const char *colon = v->given ? strchr(v->text, ':') : NULL;
    char first[32] = "";

    *from = 0;
    *to = size;
    if (!v->given)
        return CLI_OK;
    if (colon && (size_t)(colon - v->text) < sizeof first)
        memcpy(first, v->text, (size_t)(colon - v->text));
    if (!colon || !cli_read_integer(first, from) || !cli_read_integer(colon + 1, to) || *from < 0 ||
        *to <= *from || *to > size)
        return cli_usage("--%s %s: A:B with 0 <= A < B <= %lld", name, v->text, (long long)size);
    return CLI_OK;
}

/* The lines of a file; *count is how many. NULL after a message. */
static attn_label *read_tokens(const char *path, int64_t *count)
{
    FILE *f = fopen(path, "rb");
    size_t room = 1 << 16, used = 0, n = 0;
    attn_label *labels;
    char *text = NULL;
    int failed;

    if (!f) {
        cli_error("%s: %s", path, strerror(errno));
        return NULL;
    }
    for (size_t got = 1; got > 0; used += got) { /* doubles until all is in */
        char *grown = text;

        if (!text || used == room) {
            room *= text ? 2 : 1;
            grown = cli_take(room);
            if (used > 0)
                memcpy(grown, text, used);
        }
        text = grown;
        got = fread(text + used, 1, room - used, f);
    }
    failed = ferror(f);
    fclose(f);
    if (failed) {
        cli_error("%s: cannot read", path);
        return NULL;
    }
    for (size_t i = 0; i < used; i++)
        n += text[i] == '\n';
    labels = cli_take((n + 1) * sizeof *labels);
    *count = 0;
    for (size_t from = 0; from < used;) {
        const char *end = memchr(text + from, '\n', used - from);
        size_t size = end ? (size_t)(end - text) - from : used - from;

        labels[(*count)++] = (attn_label){text + from, size};
        from += size + 1;
    }
    return labels;
}

/* Labels of `all` queries or keys, from `first` on; NULL after a message. */
static const attn_label *tokens_for(const char *path, const char *what, int64_t all, int64_t first)
{
    int64_t count;
    attn_label *labels = read_tokens(path, &count);

    if (!labels)
        return NULL;
    if (count != all) {
        cli_error("%s: %lld tokens, %lld %s", path, (long long)count, (long long)all, what);
        return NULL;
    }
    return labels + first;
}

static int read_labels(const cli_value *o, const attn_view *all, attn_figure *f)
{
    if (o[SHOW_TOKENS].given) {
        f->query_tokens = tokens_for(o[SHOW_TOKENS].text, "queries", all->size[2], f->first_query);
        if (!f->query_tokens)
            return CLI_FAILED;
    }
    if (o[SHOW_KEY_TOKENS].given) {
        f->key_tokens = tokens_for(o[SHOW_KEY_TOKENS].text, "keys", all->size[3], f->first_key);
        if (!f->key_tokens)
            return CLI_FAILED;
    } else if (all->size[2] == all->size[3] && f->query_tokens) {
        f->key_tokens = f->query_tokens - f->first_query + f->first_key;
    }
    return CLI_OK;
}

/* Which pairs causal attention allows, of rows and columns shown. */
static attn_view causal(const attn_view *all, const attn_figure *f)
{
    int64_t offset = all->size[3] - all->size[2];
    uint8_t *keep = cli_take((size_t)f->queries * (size_t)f->keys);

    for (int64_t i = 0; i < f->queries; i++)
        for (int64_t j = 0; j < f->keys; j++)
            keep[i * f->keys + j] = f->first_key + j <= f->first_query + i + offset;
    return attn_view_bhsd(keep, ATTN_U8, 1, 1, f->queries, f->keys);
}

/* --- Figure ----------------------------------------------------------------------------------- */

/* The panels of the layers and heads asked for. */
static int make_panels(const cli_value *o, const attn_view *all, attn_figure *f)
{
    int64_t layers[2] = {0, all->size[0]}, heads[2] = {0, all->size[1]};
    size_t width = attn_type_size(all->type);
    attn_view allowed = {0};
    attn_panel *p;

    if (o[SHOW_LAYER].given) {
        if (o[SHOW_LAYER].integer >= all->size[0])
            return cli_usage("--layer %lld: there are %lld", (long long)o[SHOW_LAYER].integer,
                             (long long)all->size[0]);
        layers[1] = (layers[0] = o[SHOW_LAYER].integer) + 1;
    }
    if (o[SHOW_HEAD].given) {
        if (o[SHOW_HEAD].integer >= all->size[1])
            return cli_usage("--head %lld: there are %lld", (long long)o[SHOW_HEAD].integer,
                             (long long)all->size[1]);
        heads[1] = (heads[0] = o[SHOW_HEAD].integer) + 1;
    }
    if (o[SHOW_CAUSAL].given)
        allowed = causal(all, f);
    f->panel_count = (size_t)((layers[1] - layers[0]) * (heads[1] - heads[0]));
    f->panels = p = cli_take(f->panel_count * sizeof *p);
    for (int64_t l = layers[0]; l < layers[1]; l++)
        for (int64_t h = heads[0]; h < heads[1]; h++, p++) {
            *p = (attn_panel)ATTN_PANEL_INIT;
            p->layer = l;
            p->head = h;
            p->allowed = allowed;
            p->cells = *all;
            p->cells.data = (char *)all->data +
                            (l * all->stride[0] + h * all->stride[1] +
                             f->first_query * all->stride[2] + f->first_key * all->stride[3]) *
                                (int64_t)width;
            p->cells.size[0] = p->cells.size[1] = 1;
            p->cells.size[2] = f->queries;
            p->cells.size[3] = f->keys;
        }
    return CLI_OK;
}

/* An overlay's one panel: the last keys of the first query, folded into a grid. */
static int make_overlay(const cli_value *o, attn_figure *f, attn_image *image)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_panel *p = cli_take(sizeof *p);
    int64_t *sides;
    attn_status status;

    if (!o[SHOW_IMAGE].given || !o[SHOW_PATCHES].given)
        return cli_usage("--kind overlay needs --image and --patches");
    if (cli_read_integers(o[SHOW_PATCHES].text, &sides) != 2 || sides[0] < 1 || sides[1] < 1 ||
        sides[0] > f->keys || sides[1] > f->keys || sides[0] * sides[1] > f->keys)
        return cli_usage("--patches %s: H,W with at most %lld patches", o[SHOW_PATCHES].text,
                         (long long)f->keys);
    status = attn_image_read(NULL, o[SHOW_IMAGE].text, image, &err);
    if (status != ATTN_OK)
        return cli_failed(NULL, status, &err);
    *p = f->panels[0];
    p->allowed = (attn_view){0};
    p->cells.data = (char *)p->cells.data + (f->keys - sides[0] * sides[1]) * p->cells.stride[3] *
                                                (int64_t)attn_type_size(p->cells.type);
    p->cells.size[2] = sides[0];
    p->cells.size[3] = sides[1];
    p->cells.stride[2] = sides[1] * p->cells.stride[3];
    f->panels = p;
    f->panel_count = 1;
    f->image = image;
    f->queries = f->keys = 0;
    f->query_tokens = f->key_tokens = NULL;
    return CLI_OK;
}

static int set_looks(const cli_value *o, const char *path, attn_figure *f)
{
    f->title = o[SHOW_TITLE].given ? o[SHOW_TITLE].text : path;
    f->notes = o[SHOW_NOTES].text;
    f->width = o[SHOW_WIDTH].integer;
    f->height = o[SHOW_HEIGHT].integer;
    f->dark = o[SHOW_DARK].given;
    f->max_bytes = (size_t)o[SHOW_MAX_BYTES].integer;
    f->scale = (attn_scale)o[SHOW_SCALE].integer;
    f->colours = (attn_colours)o[SHOW_COLOURS].integer;
    f->reduction = (attn_reduction)o[SHOW_REDUCE].integer;
    f->robust = o[SHOW_ROBUST].number;
    f->share = o[SHOW_SHARE].number;
    f->panel_limits = o[SHOW_OWN].given;
    f->drop_keys = o[SHOW_DROP_KEYS].integer;
    f->has_limits = o[SHOW_LOW].given;
    f->low = o[SHOW_LOW].number;
    f->high = o[SHOW_HIGH].number;
    if (o[SHOW_LOW].given != o[SHOW_HIGH].given)
        return cli_usage("--low and --high go together");
    return CLI_OK;
}

/* --- Output ----------------------------------------------------------------------------------- */

/* What stdout can show, and how wide it is. */
static attn_picture terminal_format(int64_t *width)
{
    const char *term = getenv("TERM"), *depth = getenv("COLORTERM"), *plain = getenv("NO_COLOR");
    struct winsize w;

    if (!isatty(STDOUT_FILENO))
        return ATTN_PICTURE_ASCII;
    if (*width == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20)
        *width = w.ws_col;
    if ((plain && plain[0]) || !term || strcmp(term, "dumb") == 0)
        return ATTN_PICTURE_ASCII;
    return depth && (strcmp(depth, "truecolor") == 0 || strcmp(depth, "24bit") == 0)
               ? ATTN_PICTURE_ANSI_24BIT
               : ATTN_PICTURE_ANSI_256;
}

static int to_stdout(void *user, const void *bytes, size_t size)
{
    (void)user;
    return fwrite(bytes, 1, size, stdout) != size;
}

static int draw(const cli_value *o, attn_figure *f)
{
    attn_picture format = ATTN_PICTURE_AUTO;
    attn_error err = {ATTN_OK, 0, ""};
    attn_status status;

    if (o[SHOW_FORMAT].given)
        format = (attn_picture)(ATTN_PICTURE_PNG + o[SHOW_FORMAT].integer);
    if (o[SHOW_OUT].given) {
        status = attn_figure_write(NULL, f, format, o[SHOW_OUT].text, &err);
    } else {
        if (format == ATTN_PICTURE_AUTO)
            format = terminal_format(&f->width);
        if (format < ATTN_PICTURE_ANSI_24BIT && isatty(STDOUT_FILENO))
            return cli_usage("a picture in this format does not go to a terminal: -o FILE");
        status = attn_figure_emit(NULL, f, format, to_stdout, NULL, &err);
    }
    return status == ATTN_OK ? CLI_OK : cli_failed(NULL, status, &err);
}

static int show(const cli_value *o, const char *path, const attn_tensor *tensor, attn_figure *f)
{
    attn_image image = {0};
    attn_error err = {ATTN_OK, 0, ""};
    attn_view all;
    attn_status status;
    int64_t to;
    int code;

    status = attn_tensor_view(tensor, 0, &all, &err);
    if (status != ATTN_OK)
        return cli_failed(path, status, &err);
    code = read_range(&o[SHOW_QUERIES], "queries", all.size[2], &f->first_query, &to);
    f->queries = to - f->first_query;
    if (code == CLI_OK)
        code = read_range(&o[SHOW_KEYS], "keys", all.size[3], &f->first_key, &to);
    f->keys = to - f->first_key;
    if (code == CLI_OK)
        code = read_labels(o, &all, f);
    if (code == CLI_OK)
        code = make_panels(o, &all, f);
    if (code == CLI_OK) {
        const attn_figure_kind kinds[] = {ATTN_FIGURE_MAP, ATTN_FIGURE_GRID, ATTN_FIGURE_LINES,
                                          ATTN_FIGURE_OVERLAY};

        f->kind = o[SHOW_KIND].given   ? kinds[o[SHOW_KIND].integer]
                  : f->panel_count > 1 ? ATTN_FIGURE_GRID
                                       : ATTN_FIGURE_MAP;
        if (f->kind == ATTN_FIGURE_OVERLAY)
            code = make_overlay(o, f, &image);
    }
    if (code == CLI_OK)
        code = draw(o, f);
    attn_image_reset(NULL, &image);
    return code;
}

static int show_main(const cli_value *o, char **operands, size_t count)
{
    attn_figure f = ATTN_FIGURE_INIT;
    const attn_tensor *tensor;
    int code;

    if (count != 1)
        return cli_usage("one file of weights, please");
    if ((code = set_looks(o, operands[0], &f)) != CLI_OK)
        return code;
    tensor = cli_pick(operands[0], o[SHOW_TENSOR].given ? o[SHOW_TENSOR].text : "weights",
                      o[SHOW_TENSOR].given, "--tensor");
    code = tensor ? show(o, operands[0], tensor, &f) : CLI_FAILED;
    cli_close_files();
    return code;
}

const cli_command cli_show_command = {
    .name = "show",
    .title = "attn show",
    .summary = "draw attention weights: PNG, SVG, HTML, terminal",
    .usage = "attn show WEIGHTS [-o PICTURE] [options]",
    .about =
        "Draws weights, or logits, from a .npy, .npz or .safetensors file. Without -o the picture "
        "goes to the terminal, in colour if it has any.",
    .examples = "attn show weights.npy\n"
                "attn show model.safetensors --tensor attention --tokens words.txt -o model.html\n"
                "attn show weights.npy --layer 3 --head 1 --causal --scale log -o map.png",
    .options = show_options,
    .option_count = SHOW_OPTIONS,
    .main = show_main,
};
