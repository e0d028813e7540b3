/* show.c: `attn show`: pictures of attention from files. */
#include "cli/show.h"

#include <string.h>

#include "cli/arrays.h"
#include "cli/commands.h"
#include "cli/picture.h"

const cli_option show_options[SHOW_OPTIONS] = {
    [SHOW_OUT] =
        {"Output", "out", 'o', CLI_TEXT, "FILE",
         "the picture; the ending decides: .png, .svg, .html, .txt (default: the terminal)", 0, 0},
    [SHOW_FORMAT] = {NULL, "format", 0, CLI_CHOICE, "png|svg|html|24bit|256|ascii",
                     "this format, whatever the ending", 0, 0},
    [SHOW_KIND] = {NULL, "kind", 0, CLI_CHOICE, "map|grid|lines|overlay|entropy|distance",
                   "one head as a heat map; all as thumbnails; lines between tokens; patches over "
                   "--image; curves of the entropy (by layer, or along the queries) and of the "
                   "weight by distance. Default: map for one head, else "
                   "grid",
                   0, 0},
    [SHOW_STATS] = {NULL, "stats", 0, CLI_TEXT, "FILE",
                    "every query's entropy, peak and its key, mean distance, "
                    "weight of the first and of the previous key; in .json also the weight that "
                    "each key receives and the means of each head. .json or .csv",
                    0, 0},
    [SHOW_WIDTH] = {NULL, "width", 0, CLI_INTEGER, "N", "pixels, or characters", 1, 16384},
    [SHOW_HEIGHT] = {NULL, "height", 0, CLI_INTEGER, "N", "pixels, or lines", 1, 16384},
    [SHOW_DARK] = {NULL, "dark", 0, CLI_FLAG, "", "light text on dark", 0, 0},
    [SHOW_MAX_BYTES] = {NULL, "max-bytes", 0, CLI_INTEGER, "N",
                        "keep less detail in .html, to stay below (default 6000000)", 100000, 1e12},
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
                     "what a pixel, or a cell of a pooled map, shows of the weights under it", 0,
                     0},
    [SHOW_DROP_KEYS] = {NULL, "drop-keys", 0, CLI_INTEGER, "N",
                        "hide the first N keys, divide the rest of each row by its sum", 0, 1e12},
    [SHOW_SHARE] = {NULL, "share", 0, CLI_NUMBER, "X",
                    "lines: the heaviest edges that hold this much of each row (default 0.7)", 0,
                    1},
    [SHOW_TENSOR] =
        {"Input", "tensor", 0, CLI_TEXT, "NAME",
         "of a file that holds several: weights [queries, keys], [heads, queries, keys] "
         "or [layers, heads, queries, keys]",
         0, 0},
    [SHOW_LAYER] = {NULL, "layer", 0, CLI_INTEGER, "N",
                    "only this one; of queries and keys: this one of the batch", 0, 1e12},
    [SHOW_HEAD] = {NULL, "head", 0, CLI_INTEGER, "N", "only this one", 0, 1e12},
    [SHOW_QUERIES] = {NULL, "queries", 0, CLI_TEXT, "A:B", "only queries A to B-1", 0, 0},
    [SHOW_KEYS] = {NULL, "keys", 0, CLI_TEXT, "A:B",
                   "only keys A to B-1 in the picture; weights stay what they are", 0, 0},
    [SHOW_ROWS] = {NULL, "rows", 0, CLI_TEXT, "N,N,...",
                   "html of a pooled map: these queries in full", 0, 0},
    [SHOW_CELLS] = {NULL, "cells", 0, CLI_INTEGER, "N",
                    "of queries and keys: at most so many rows and columns of cells a head; longer "
                    "input is pooled (default 1024, less for many heads)",
                    1, 16384},
    [SHOW_TOKENS] = {NULL, "tokens", 0, CLI_TEXT, "FILE",
                     "a token a line, for queries and, if they are as many, for keys", 0, 0},
    [SHOW_KEY_TOKENS] = {NULL, "key-tokens", 0, CLI_TEXT, "FILE", "for keys", 0, 0},
    [SHOW_IMAGE] = {NULL, "image", 0, CLI_TEXT, "FILE", "a .png; with --patches", 0, 0},
    [SHOW_PATCHES] = {NULL, "patches", 0, CLI_TEXT, "H,W",
                      "the last H W keys of the first query shown are patches of the image", 0, 0},
    CALL_ROWS(SHOW_CALL, NULL, "score-scale"),
};

/* --- Figure --------------------------------------------------------------------------------- */

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

static int set_looks(show_job *job, const char *path)
{
    const cli_value *o = job->o;
    attn_figure *f = &job->f;

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
    if (job->kind != SHOW_OVERLAY && (o[SHOW_IMAGE].given || o[SHOW_PATCHES].given))
        return cli_usage("--image and --patches are for --kind overlay");
    return CLI_OK;
}

static int set_kind(show_job *job)
{
    static const attn_figure_kind kinds[] = {
        [SHOW_MAP] = ATTN_FIGURE_MAP,        [SHOW_GRID] = ATTN_FIGURE_GRID,
        [SHOW_LINES] = ATTN_FIGURE_LINES,    [SHOW_OVERLAY] = ATTN_FIGURE_OVERLAY,
        [SHOW_ENTROPY] = ATTN_FIGURE_CURVES, [SHOW_DISTANCE] = ATTN_FIGURE_CURVES,
    };

    if (!job->o[SHOW_KIND].given && job->panels > 1)
        job->kind = SHOW_GRID;
    job->f.kind = kinds[job->kind];
    if (job->kind == SHOW_OVERLAY)
        return make_overlay(job->o, &job->f, &job->image);
    return job->kind >= SHOW_ENTROPY ? show_curves(job) : CLI_OK;
}

/* --- The command ---------------------------------------------------------------------------- */

static int show(show_job *job, char **paths, size_t count)
{
    const cli_value *o = job->o;
    const attn_tensor *tensor;
    int code;

    job->stats = (attn_stats)ATTN_STATS_INIT;
    if ((o[SHOW_OUT].given && (code = cli_check_folder(o[SHOW_OUT].text)) != 0) ||
        (o[SHOW_STATS].given && (code = cli_check_folder(o[SHOW_STATS].text)) != 0))
        return code;
    if (!cli_open(paths[0]))
        return CLI_FAILED;
    if (show_is_call(job, paths, count)) {
        code = show_call(job, paths, count);
    } else {
        tensor = cli_pick(paths[0], o[SHOW_TENSOR].given ? o[SHOW_TENSOR].text : "weights",
                          o[SHOW_TENSOR].given, "--tensor");
        code = tensor ? show_weights(job, paths[0], tensor) : CLI_FAILED;
    }
    if (code == CLI_OK)
        code = set_kind(job);
    if (code == CLI_OK && o[SHOW_STATS].given)
        code = show_write_stats(job);
    /* Statistics alone may be all that is wanted. */
    if (code == CLI_OK && !(o[SHOW_STATS].given && !o[SHOW_OUT].given && !o[SHOW_FORMAT].given))
        code = cli_draw(&job->f, job->format, o[SHOW_OUT].given ? o[SHOW_OUT].text : NULL);
    return code;
}

static int show_main(const cli_value *o, char **operands, size_t count)
{
    show_job *job = cli_take(sizeof *job);
    int code;

    cli_catch_signals();
    job->o = o;
    job->f = (attn_figure)ATTN_FIGURE_INIT;
    job->kind = (show_kind)o[SHOW_KIND].integer;
    job->call.o = o + SHOW_CALL;
    job->call.options = show_options + SHOW_CALL;
    if (o[SHOW_FORMAT].given)
        job->format = (attn_picture)(ATTN_PICTURE_PNG + o[SHOW_FORMAT].integer);
    if (count != 1 && count != 2)
        return cli_usage("%zu input files; expected one (weights, or queries and keys) or two "
                         "(queries, keys)",
                         count);
    code = set_looks(job, operands[0]);
    if (code == CLI_OK)
        code = show_check_stats(job);
    if (code == CLI_OK)
        code = show(job, operands, count);
    attn_image_reset(NULL, &job->image);
    cli_close_files();
    if (cli_interrupted())
        cli_die_of_signal();
    return code;
}

const cli_command cli_show_command = {
    .name = "show",
    .title = "attn show",
    .summary = "draw attention: PNG, SVG, HTML, terminal; statistics",
    .usage = "attn show WEIGHTS [-o PICTURE] [--stats FILE] [options]\n"
             "attn show QK.npz [-o PICTURE] [--stats FILE] [options]\n"
             "attn show Q.npy K.npy [-o PICTURE] [--stats FILE] [options]",
    .about =
        "Draws attention from .npy, .npz or .safetensors files: weights (or logits) that are "
        "there, or those of queries and keys, at any length: weights are then pooled as they are "
        "computed, and never all held. Without -o the picture goes to the terminal, in colour if "
        "it has any. --causal over weights: keys after the query are masked, not zero; the last "
        "query and the last key stand side by side. All other options below 'Scores' and "
        "'Positions', and of 'Masks', are for queries and keys, as in attn run.",
    .examples = "attn show weights.npy\n"
                "attn show model.safetensors --tensor attention --tokens words.txt -o model.html\n"
                "attn show weights.npy --layer 3 --head 1 --causal --scale log -o map.png\n"
                "attn show QK.npz --causal --window 4095,0 -o map.html --stats stats.json\n"
                "attn show Q.npy K.npy --kind distance -o distance.svg",
    .options = show_options,
    .option_count = SHOW_OPTIONS,
    .main = show_main,
};
