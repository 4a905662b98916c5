#include "library_search.hpp"

#include "system_file.hpp"
#include "text_fields.hpp"

namespace trimtab::host {

std::vector<std::string> library_places(const std::map<std::string, std::string>& environment,
                                        const std::vector<std::string>& more) {
  std::vector<std::string> places;
  const auto chosen = environment.find("LD_LIBRARY_PATH");
  if (chosen != environment.end()) {
    for (const std::string_view place : split(chosen->second, ':')) places.emplace_back(place);
  }
  places.insert(places.end(), more.begin(), more.end());
  for (const char* usual :
       {"/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib",
        "/usr/local/cuda/targets/sbsa-linux/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64", "/usr/local/lib", "/opt/nvidia/lib"}) {
    places.emplace_back(usual);
  }
  return places;
}

std::string find_library(const std::string& root, const std::vector<std::string>& places, const std::string& name) {
  for (const std::string& place : places) {
    for (const std::string& file : list_system_directory(root, place)) {
      if (file == name || file.starts_with(name + ".")) return place + "/" + file;
    }
  }
  return "";
}

}  // namespace trimtab::host
