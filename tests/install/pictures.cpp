// pictures.cpp: viz.h from C++17: draws a map of four weights into memory, and into a file.
#include <attn/viz.h>

#include <cstdio>
#include <string>

static int append(void *user, const void *bytes, size_t size)
{
    static_cast<std::string *>(user)->append(static_cast<const char *>(bytes), size);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    const float weights[2][2] = {{1, 0}, {0.5f, 0.5f}};
    attn_error err = {};
    attn_panel panel = ATTN_PANEL_INIT;
    panel.cells = attn_view_bhsd(weights, ATTN_F32, 1, 1, 2, 2);
    attn_figure figure = ATTN_FIGURE_INIT;
    figure.panels = &panel;
    figure.panel_count = 1;

    std::string svg;
    attn_status status = attn_figure_emit(nullptr, &figure, ATTN_PICTURE_SVG, append, &svg, &err);
    const std::string path = std::string(argv[1]) + "/map.png";
    if (status == ATTN_OK)
        status = attn_figure_write(nullptr, &figure, ATTN_PICTURE_AUTO, path.c_str(), &err);
    attn_image image = {};
    if (status == ATTN_OK)
        status = attn_image_read(nullptr, path.c_str(), &image, &err);
    const bool right = svg.find("</svg>") != std::string::npos && image.width >= 320;
    attn_image_reset(nullptr, &image);
    if (status != ATTN_OK)
        std::fprintf(stderr, "%s: %s\n", attn_status_text(status), err.text);
    return status == ATTN_OK && right ? 0 : 1;
}
