#pragma once

// The environment of a watched process as people paste it. Pure.

#include "run/watch_environment.hpp"

namespace trimtab::cli {

// "'it'\''s'": one word of a shell.
[[nodiscard]] std::string shell_quoted(const std::string& text);

// A line each: for `eval`, for a file of NAME=VALUE, for programs.
[[nodiscard]] std::string shell_exports(const VariableChanges& changes);
[[nodiscard]] std::string variable_lines(const VariableChanges& changes);
[[nodiscard]] std::string variables_json(const VariableChanges& changes);

// What must be seen inside at the same place: the agent's socket (its folder, as an agent that starts anew makes a new
// one), the library and the client.
[[nodiscard]] std::vector<std::string> mounted_folders(const WatchPlaces& places);
// Options of `docker run`, in one line.
[[nodiscard]] std::string docker_options(const VariableChanges& changes, const WatchPlaces& places);
// Parts of a pod's document: env and volumeMounts of its container, and its volumes.
[[nodiscard]] std::string kubernetes_parts(const VariableChanges& changes, const WatchPlaces& places);

}  // namespace trimtab::cli
