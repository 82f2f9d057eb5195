/* metal_texts.h - where compiled texts are kept: files of the build folder, named by a sum of the text, of the command that compiles it and of
 * the shim, so that whoever runs tests again waits for what is new alone. */
#ifndef AU_TESTS_METAL_TEXTS_H
#define AU_TESTS_METAL_TEXTS_H

#include <stddef.h>

enum { METAL_FOLDER = 480, METAL_PATH = 512, METAL_MOST_KEPT = 600, METAL_MOST_HEADERS = 6 };

/* The file of a text, with that ending. 0: nothing can be kept. */
int metal_text_place(const char *source, const char *command, const char *ending, char *path,
                     size_t room);
/* A new folder to compile in, beside those files; where nothing can be kept, among temporary ones. */
int metal_text_folder(char *path, size_t room);
void metal_text_used(const char *path);
/* Forgets those of that ending that were used longest ago where there are more than [most]. */
void metal_text_make_room(const char *folder, const char *ending, unsigned most);

#endif
