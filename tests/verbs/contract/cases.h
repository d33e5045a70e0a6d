/* Cases of a program, each in a process of its own. */
#ifndef CASES_H
#define CASES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

struct one_case {
    const char *name;
    void (*run)(void);
};

/* Runs the cases that `words` names, without any all. Returns the program's exit code. */
static inline int run_cases(const struct one_case *cases, size_t all, int count, char **words)
{
    int failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t at = 0; at < all; at++) {
        int is_named = count == 1, ended = 0;
        for (int word = 1; word < count; word++)
            is_named |= strcmp(words[word], cases[at].name) == 0;
        if (!is_named)
            continue;
        pid_t child = fork();
        if (child == 0) {
            alarm(3 * SECONDS);
            cases[at].run();
            exit(0);
        }
        if (waitpid(child, &ended, 0) != child || ended != 0) {
            printf("failed %s (%s %d)\n", cases[at].name, WIFSIGNALED(ended) ? "signal" : "exit code",
                   WIFSIGNALED(ended) ? WTERMSIG(ended) : WEXITSTATUS(ended));
            failed = 1;
        } else {
            printf("passed %s\n", cases[at].name);
        }
    }
    return failed;
}

#endif
