-- Made from operator/src/inference_operator/api/conditions.py by `make generate`. Do not edit.
-- Argo CD's verdict on an InferenceCluster. It runs in gopher-lua (Lua 5.1) without the string library.

-- condition -> status -> reason -> health
local HEALTH = {
  Stalled = {
    True = {
      SpecInvalid = "Degraded",
      LoadTimeout = "Degraded",
      CrashLoop = "Degraded",
      ImagePull = "Degraded",
      ContainerConfig = "Degraded",
      ApplyFailed = "Degraded",
      MissingObject = "Degraded",
      CreateFailed = "Degraded",
      otherwise = "Degraded",
    },
  },
  Ready = {
    True = {
      Serving = "Healthy",
      Scaling = "Healthy",
      Degraded = "Healthy",
      otherwise = "Healthy",
    },
    False = {
      Progressing = "Progressing",
      Stopped = "Suspended",
      Invalid = "Degraded",
      Unavailable = "Degraded",
      Suspended = "Suspended",
      Deleting = "Progressing",
      otherwise = "Progressing",
    },
    Unknown = {
      NotObserved = "Progressing",
      otherwise = "Progressing",
    },
  },
  Reconciling = {
    True = {
      FirstCreation = "Progressing",
      RollingOut = "Progressing",
      otherwise = "Progressing",
    },
  },
}

-- What the message of a healthy cluster says too.
local WORTH_TELLING = {
  { type = "CapacityAvailable", reasons = { Unschedulable = true, QuotaExceeded = true, CreateFailed = true } },
  { type = "ScalingActive", reasons = { Conflict = true, MetricsUnavailable = true } },
}

local status = obj.status or {}

local function condition(name)
  for _, found in ipairs(status.conditions or {}) do
    if found.type == name then
      return found
    end
  end
  return {}
end

local function health(name)
  local found = condition(name)
  local meanings = HEALTH[name][found.status] or {}
  -- A reason that isn't named comes from a newer operator.
  return meanings[found.reason or ""] or meanings.otherwise, found
end

local function told(found, word)
  local reason, message = found.reason or "NotObserved", found.message or ""
  if message == "" then
    return reason
  end
  -- Argo CD shows the word beside the message.
  return reason == word and message or reason .. ": " .. message
end

local function told_of_healthy(ready)
  local texts = { told(ready) }
  local lost = condition("Degraded")
  if ready.reason == "Degraded" and lost.status == "True" then
    -- Says why as well.
    texts = { "Degraded: " .. (lost.message or "") }
  end
  for _, one in ipairs(WORTH_TELLING) do
    local found = condition(one.type)
    if found.status == "False" and one.reasons[found.reason or ""] then
      table.insert(texts, told(found))
    end
  end
  return table.concat(texts, "; ")
end

local function verdict()
  local stalled, stall = health("Stalled")
  local ready, readiness = health("Ready")
  local reconciling, change = health("Reconciling")
  if obj.metadata.deletionTimestamp ~= nil then
    return "Progressing", readiness.reason == "Deleting" and told(readiness) or "Being deleted"
  end
  -- Older, or newer after a restore from a backup: either way the status is of another spec.
  if status.observedGeneration ~= obj.metadata.generation then
    return "Progressing", "The operator hasn't looked at generation " ..
      tostring(obj.metadata.generation) .. " yet; if it stays so, see whether it runs"
  end
  if obj.spec.suspend == true then
    return "Suspended", told(readiness, "Suspended")
  end
  if stalled ~= nil then
    return stalled, told(stall, stalled)
  end
  if ready == "Healthy" then
    return ready, told_of_healthy(readiness)
  end
  if reconciling ~= nil then
    return reconciling, told(readiness.status == "False" and readiness or change, reconciling)
  end
  ready = ready or "Progressing"
  return ready, told(readiness, ready)
end

local word, text = verdict()
return { status = word, message = text }
