#include "run/attach_text.hpp"

#include <filesystem>

#include "json_text.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

// A double-quoted scalar of YAML is a text of JSON.
std::string yaml_quoted(const std::string& text) {
  return json_text(json(text));
}

}  // namespace

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_exports(const VariableChanges& changes) {
  std::string lines;
  for (const auto& [name, value] : changes) {
    if (value) lines += "export " + name + "=" + shell_quoted(*value) + "\n";
  }
  return lines;
}

std::string variable_lines(const VariableChanges& changes) {
  std::string lines;
  for (const auto& [name, value] : changes) {
    if (value) lines += name + "=" + *value + "\n";
  }
  return lines;
}

std::string variables_json(const VariableChanges& changes) {
  json document = json::object();
  for (const auto& [name, value] : changes) {
    if (value) document[name] = *value;
  }
  return json_text(document, 2) + "\n";
}

std::vector<std::string> mounted_folders(const WatchPlaces& places) {
  std::vector<std::string> folders;
  for (const std::string& folder : {std::filesystem::path(places.socket).parent_path().string(),
                                    std::filesystem::path(places.library).parent_path().string(), places.client}) {
    const bool inside = !folders.empty() && folder.starts_with(folders.back() + "/");
    if (!inside) folders.push_back(folder);
  }
  return folders;
}

std::string docker_options(const VariableChanges& changes, const WatchPlaces& places) {
  std::string line;
  const std::vector<std::string> folders = mounted_folders(places);
  for (const std::string& folder : folders) {
    const bool is_socket = folder == folders.front();
    line +=
        (line.empty() ? "" : " ") + std::string("-v ") + shell_quoted(folder + ":" + folder + (is_socket ? "" : ":ro"));
  }
  for (const auto& [name, value] : changes) {
    if (value) line += " -e " + shell_quoted(name + "=" + *value);
  }
  return line + "\n";
}

std::string kubernetes_parts(const VariableChanges& changes, const WatchPlaces& places) {
  std::string env = "# of the container\nenv:\n";
  for (const auto& [name, value] : changes) {
    if (value) env += "- {name: " + name + ", value: " + yaml_quoted(*value) + "}\n";
  }
  std::string mounts = "volumeMounts:\n";
  std::string volumes = "# of the pod\nvolumes:\n";
  const std::vector<std::string> folders = mounted_folders(places);
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const std::string name = "trimtab-" + std::to_string(i);
    mounts +=
        "- {name: " + name + ", mountPath: " + yaml_quoted(folders[i]) + (i == 0 ? "" : ", readOnly: true") + "}\n";
    volumes += "- {name: " + name + ", hostPath: {path: " + yaml_quoted(folders[i]) + ", type: Directory}}\n";
  }
  return env + mounts + volumes;
}

}  // namespace trimtab::cli
