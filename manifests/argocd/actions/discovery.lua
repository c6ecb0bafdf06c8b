-- Which of the actions a person is offered.
local deleting = obj.metadata.deletionTimestamp ~= nil
local suspended = obj.spec.suspend == true
return {
  suspend = { disabled = deleting or suspended },
  resume = { disabled = deleting or not suspended },
}
