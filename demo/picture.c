/* picture.c - see picture.h. */
#include "picture.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { INDENT = 4, FEWEST = 16, MOST = 160, GREYS = 24, FIRST_GREY = 232 };

typedef struct Picture {
    const double *weights;
    int64_t size;   /* of the matrix */
    int64_t pixels; /* of a side of the picture */
} Picture;

static int64_t terminal_columns(void)
{
    struct winsize window;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) return window.ws_col;
    const char *columns = getenv("COLUMNS");
    const int64_t count = columns ? strtol(columns, NULL, 10) : 0;
    return count > 0 ? count : 128;
}

static bool has_colours(void)
{
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && !getenv("NO_COLOR");
}

/* The largest weight under a pixel, as brightness from 0 to 1; the root lifts what a flat head spreads thin. */
static double brightness(const Picture *p, int64_t row, int64_t column)
{
    double largest = 0;
    for (int64_t i = row * p->size / p->pixels; i * p->pixels < (row + 1) * p->size; i++)
        for (int64_t j = column * p->size / p->pixels; j * p->pixels < (column + 1) * p->size; j++)
            largest = fmax(largest, p->weights[i * p->size + j]);
    return fmin(1, sqrt(largest));
}

static int grey(double brightness_) { return FIRST_GREY + (int)lround(brightness_ * (GREYS - 1)); }

static void draw_greys(const Picture *p)
{
    for (int64_t row = 0; row < p->pixels; row += 2) {
        printf("%*s", INDENT, "");
        for (int64_t column = 0; column < p->pixels; column++) {
            const bool is_last = row + 1 == p->pixels;
            const double below = is_last ? 0 : brightness(p, row + 1, column);
            printf("\033[38;5;%d;48;5;%dm▀", grey(brightness(p, row, column)), grey(below));
        }
        puts("\033[0m");
    }
}

static void draw_shades(const Picture *p)
{
    static const char *const shades[] = {" ", "·", "░", "▒", "▓", "█"};
    enum { SHADES = sizeof shades / sizeof *shades };
    for (int64_t row = 0; row < p->pixels; row += 2) {
        int64_t end = 0; /* no blanks at the end of a line */
        int shade[MOST];
        for (int64_t column = 0; column < p->pixels; column++) {
            const bool is_last = row + 1 == p->pixels;
            const double below = is_last ? 0 : brightness(p, row + 1, column);
            const double both = fmax(brightness(p, row, column), below);
            shade[column] = (int)lround(both * (SHADES - 1));
            if (shade[column] > 0) end = column + 1;
        }
        printf("%*s", INDENT, "");
        for (int64_t column = 0; column < end; column++) fputs(shades[shade[column]], stdout);
        putchar('\n');
    }
}

void picture_draw(const double *weights, int64_t size, int64_t columns)
{
    if (size <= 0) return;
    int64_t room = (columns > 0 ? columns : terminal_columns()) - INDENT;
    if (room < FEWEST) room = FEWEST;
    if (room > MOST) room = MOST;
    const Picture picture = {weights, size, size < room ? size : room};
    if (has_colours())
        draw_greys(&picture);
    else
        draw_shades(&picture);
}
