#pragma once

// What is handed in: the body of POST /v1/jobs and POST /v1/profile.

#include "schema/api/fields.hpp"

namespace trimtab::api {

struct Submission {
  Carried job;
  bool tune = true;

  static constexpr void fields(auto&& visit) {
    visit("job", &Submission::job, Presence::kNeeded, "schema/job.hpp");
    visit("tune", &Submission::tune, Presence::kUsual, "False: measure costs alone.");
  }
};

}  // namespace trimtab::api
